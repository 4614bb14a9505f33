# SPDX-License-Identifier: Apache-2.0
"""Full-vocabulary KL divergence between the reference and the built library, on the sequences of tests/golden/real/.

    POSTERN_LIB=build/release/libpostern.so python tests/golden/compare_logits.py smollm2 PATH_OF_GGUF
    POSTERN_LIB=build/release/libpostern.so python tests/golden/compare_logits.py gemma3 PATH_OF_GGUF --every 16

Packages and versions: reference.py. Logits are taken after every Nth token (--every) and after the last, once with the
KV cache in F32 and once in F16. The timeline grows from one such token to the next, so that what is compared is prefill
in small pieces with reuse of the prefix; "in one piece" is the whole sequence in a new session. Exits with 1 when the
mean KL of an F32 line passes 1e-8 or the best token differs where the reference's two best are over 0.02 apart.
"""

import argparse
import ctypes
import json
import os
import pathlib
import sys

import numpy as np
import reference

KV_TYPES = {"F32": 1, "F16": 0}  # pn_kv_type
MAX_MEAN_KL = 1e-8
CLEAR_MARGIN = 0.02


class PnError(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("position", ctypes.c_uint64), ("message", ctypes.c_char * 480)]


class PnSessionOptions(ctypes.Structure):
    _fields_ = [("n_ctx", ctypes.c_int), ("n_chunk", ctypes.c_int), ("kv_type", ctypes.c_int)]


class Library:
    """The few functions of include/postern.h that this needs."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.pn_session_logits.restype = ctypes.POINTER(ctypes.c_float)
        self.lib.pn_session_logits.argtypes = [ctypes.c_void_p]
        for close in (self.lib.pn_model_close, self.lib.pn_session_free):
            close.restype = None
            close.argtypes = [ctypes.c_void_p]

    def call(self, name, *args):
        """Calls a function that returns pn_status and takes a pn_error last."""
        error = PnError()
        if getattr(self.lib, name)(*args, ctypes.byref(error)) != 0:
            raise RuntimeError(f"{name}: {error.message.decode()}")

    def open(self, path):
        model = ctypes.c_void_p()
        self.call("pn_model_open", os.fsencode(path), None, ctypes.byref(model))
        return model

    def logits(self, model, ids, positions, kv_type, n_vocab):
        """[len(positions), n_vocab] logits from one session whose timeline grows to each position in turn."""
        session = ctypes.c_void_p()
        options = PnSessionOptions(n_ctx=len(ids), kv_type=KV_TYPES[kv_type])
        self.call("pn_session_create", model, ctypes.byref(options), ctypes.byref(session))
        try:
            tokens = (ctypes.c_int32 * len(ids))(*ids)
            rows = []
            for position in positions:
                self.call("pn_session_sync", session, tokens, ctypes.c_size_t(position + 1), None, None)
                rows.append(np.ctypeslib.as_array(self.lib.pn_session_logits(session), (n_vocab,)).copy())
            return np.stack(rows)
        finally:
            self.lib.pn_session_free(session)


def divergence(expected, got):
    """KL(expected || got) of every row, in nats."""
    p, q = reference.log_softmax(expected), reference.log_softmax(got)
    return (np.exp(p) * (p - q)).sum(-1)


def clear_mismatches(expected, got):
    """(rows with the same best token, rows where it differs though the reference is clear)."""
    second, first = np.sort(expected, axis=-1)[:, -2:].T
    same = expected.argmax(-1) == got.argmax(-1)
    return int(same.sum()), int((~same & (first - second > CLEAR_MARGIN)).sum())


def compare(library, model, expected, ids, positions, kv_type):
    """Prints one line; whether it is within the bounds."""
    got = library.logits(model, ids, positions, kv_type, expected.shape[1])
    whole = library.logits(model, ids, positions[-1:], kv_type, expected.shape[1])
    kl = divergence(expected, got)
    n_same, n_wrong = clear_mismatches(expected, got)
    print(
        f"  KV {kv_type}: KL mean {kl.mean():.2e} max {kl.max():.2e}, largest logit error "
        f"{np.abs(got - expected).max():.1e}, same best token {n_same}/{len(kl)} ({n_wrong} clearly wrong), "
        f"in one piece {divergence(expected[-1:], whole)[0]:.2e}",
        flush=True,
    )
    return n_wrong == 0 and (kv_type != "F32" or kl.mean() <= MAX_MEAN_KL)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", choices=["smollm2", "gemma3"])
    parser.add_argument("gguf", type=pathlib.Path)
    parser.add_argument("--every", type=int, default=8, metavar="N")
    args = parser.parse_args()
    golden = json.loads((pathlib.Path(__file__).parent / "real" / f"{args.name}.json").read_text(encoding="utf-8"))
    library = Library(os.environ["POSTERN_LIB"])
    theirs, _ = reference.load_model(args.gguf)
    ours = library.open(args.gguf)
    good = True
    for sequence in golden["sequences"]:
        ids = sequence["ids"]
        positions = sorted({*range(args.every - 1, len(ids), args.every), len(ids) - 1})
        expected = reference.logits_at(theirs, ids, positions)
        print(f"{args.name} {sequence['name']}: {len(ids)} tokens, logits at {len(positions)} positions", flush=True)
        for kv_type in KV_TYPES:
            good &= compare(library, ours, expected, ids, positions, kv_type)
    library.lib.pn_model_close(ours)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
