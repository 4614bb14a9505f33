# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/integers: what NNCF makes of groups of weights as integers of 4 and 8 bits.

Usage: python3 tests/golden/make_integers.py      (needs: pip install nncf numpy)

KIND.bin holds groups of 64 weights, one after the other: the weights as little-endian floats, the scale as a half, the
zero point, a byte of padding, and the codes, which are unsigned. The scale is NNCF's own, rounded to half; the zero point
follows from that, by NNCF's rule; the codes are what NNCF makes with both.
"""

import pathlib

import numpy as np
from nncf.parameters import CompressWeightsMode as Mode
from nncf.quantization.algorithms.weight_compression.config import WeightCompressionConfig
from nncf.quantization.algorithms.weight_compression.weight_lowering import (
    calculate_integer_quantization_params,
    do_integer_quantization,
)
from nncf.tensor import Tensor

HERE = pathlib.Path(__file__).parent / "integers"
GROUP = 64


def groups(rng):
    """Weights as models have them, and edges. None has only weights of one sign, of which NNCF makes little."""
    normal = rng.normal(0, 0.02, (24, GROUP))
    zero = np.zeros((1, GROUP))
    one = np.eye(3, GROUP) * [[1.0], [-3.0], [1e-9]]
    ends = normal[:4].copy()
    ends[:, 0] = [0.25, -0.25, 0.25, -0.25]
    ends[2:, 1] = [-0.25, 0.25]
    ties = np.tile(np.arange(GROUP) / 2 - GROUP / 4, (2, 1)) * [[0.25], [-0.125]]
    sized = normal[:8] * 10.0 ** np.array([[-7], [-6], [-5], [-4], [2], [4], [5], [6]])
    half = np.abs(normal[:2]) * [[1], [-1]]
    half[:, 5] = 0
    return np.concatenate([normal, zero, one, ends, ties, sized, half]).astype("<f4")


def quantised(weights, mode):
    config = WeightCompressionConfig(mode=mode, group_size=-1)
    scale, zero = calculate_integer_quantization_params(Tensor(weights), 1, config)
    half = scale.data.astype("<f2")
    rounded = half.astype("<f4")
    if zero is not None:
        least = weights.min(axis=1, keepdims=True)
        zero = np.clip(-np.round(least / rounded), 0, 2**config.num_bits - 1).astype(np.int32)
    result = do_integer_quantization(
        Tensor(weights), config, 1, Tensor(rounded), None if zero is None else Tensor(zero)
    )
    above = 0 if config.is_asym_mode else 2 ** (config.num_bits - 1)
    codes = (result.tensor.data.astype(np.int32) + above).astype(np.uint8)
    return half, np.zeros_like(half, np.uint8) if zero is None else zero.astype(np.uint8), codes


def main():
    HERE.mkdir(exist_ok=True)
    weights = groups(np.random.default_rng(1))
    for mode in (Mode.INT4_SYM, Mode.INT4_ASYM, Mode.INT8_SYM, Mode.INT8_ASYM):
        records = zip(weights, *quantised(weights, mode))
        data = b"".join(w.tobytes() + d.tobytes() + z.tobytes() + b"\0" + c.tobytes() for w, d, z, c in records)
        (HERE / f"{mode.name}.bin").write_bytes(data)


main()
