# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/qtypes: what the gguf Python package makes of blocks of each weight type.

Usage: python3 tests/golden/make_qtypes.py        (needs: pip install gguf numpy)

NAME.bin holds the blocks, one after the other, and then their weights as little-endian floats.
types.txt lists every type the package knows: id, name, weights per block, bytes per block.
"""

import pathlib

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize

HERE = pathlib.Path(__file__).parent / "qtypes"

# Byte offsets of the half-precision scales in a block.
SCALES = {
    T.Q4_0: [0],
    T.Q4_1: [0, 2],
    T.Q5_0: [0],
    T.Q5_1: [0, 2],
    T.Q8_0: [0],
    T.Q2_K: [80, 82],
    T.Q3_K: [108],
    T.Q4_K: [0, 2],
    T.Q5_K: [0, 2],
    T.Q6_K: [208],
    T.IQ4_NL: [0],
    T.IQ4_XS: [0],
}
SPECIAL_HALVES = [
    0x0000,
    0x8000,
    0x0001,
    0x8001,
    0x03FF,
    0x0400,
    0x83FF,
    0x3C00,
    0xBC00,
    0x7BFF,
    0xFBFF,
    0x7C00,
    0xFC00,
    0x7E00,
]


def random_blocks(rng, qtype, n):
    """n blocks of random codes, with scales such as real weights have."""
    blocks = rng.integers(0, 256, (n, GGML_QUANT_SIZES[qtype][1]), dtype=np.uint8)
    for offset in SCALES[qtype]:
        scale = rng.normal(0, 0.02, n).astype("<f2")
        blocks[:, offset : offset + 2] = scale.view(np.uint8).reshape(n, 2)
    return blocks


def with_scale(block, qtype, bits):
    block = block.copy()
    for offset in SCALES[qtype]:
        block[offset : offset + 2] = [bits & 255, bits >> 8]
    return block


def quantised_blocks(rng, qtype):
    n = 8 if GGML_QUANT_SIZES[qtype][0] == 32 else 2
    blocks = random_blocks(rng, qtype, n)
    zero = np.zeros_like(blocks[0])
    special = [with_scale(blocks[0], qtype, h) for h in (0x7C00, 0x03A5, 0x8001)]
    return np.concatenate([blocks, [zero], special])


def number_blocks(rng, qtype):
    if qtype == T.F16:
        numbers = np.concatenate([rng.normal(0, 1, 64).astype("<f2").view("<u2"), np.array(SPECIAL_HALVES, "<u2")])
    elif qtype == T.BF16:
        numbers = rng.integers(0, 65536, 96).astype("<u2")
    else:
        numbers = rng.integers(0, 1 << 32, 32, dtype=np.uint64).astype("<u4")
    return numbers.view(np.uint8).reshape(len(numbers), -1)


def main():
    HERE.mkdir(exist_ok=True)
    for qtype in [T.F32, T.F16, T.BF16, *SCALES]:
        rng = np.random.default_rng(int(qtype))
        blocks = quantised_blocks(rng, qtype) if qtype in SCALES else number_blocks(rng, qtype)
        with np.errstate(all="ignore"):
            weights = dequantize(np.ascontiguousarray(blocks).reshape(1, -1), qtype).ravel()
        (HERE / f"{qtype.name}.bin").write_bytes(blocks.tobytes() + weights.astype("<f4").tobytes())
    lines = [f"{int(t)} {t.name} {length} {size}\n" for t, (length, size) in sorted(GGML_QUANT_SIZES.items())]
    (HERE / "types.txt").write_text("".join(lines))


main()
