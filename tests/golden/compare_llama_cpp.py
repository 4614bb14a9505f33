# SPDX-License-Identifier: Apache-2.0
"""Compares the logits of llama.cpp and of postern on a GGUF file of standard types, as `postern compress --format gguf`
writes them.

    POSTERN_LIB=build/release/libpostern.so python tests/golden/compare_llama_cpp.py MODEL.gguf...

needs the package llama-cpp-python and those of reference.py. Both run the same tokens of multilingual.txt
with a KV cache in F16. For products with 4 and 8 bits llama.cpp rounds activations to 8 bits, which costs a few
thousandths of a nat; on files of F16 weights the two are nearer by three orders. Exits with 1 when a mean passes 1e-2.
"""

import os
import pathlib
import sys

import compare_logits
import llama_cpp
import numpy as np

N_TOKENS, EVERY, MAX_MEAN_KL = 256, 16, 1e-2
TEXT = (pathlib.Path(__file__).parent / "multilingual.txt").read_bytes()


def llama_cpp_logits(path, positions):
    """(token ids, [len(positions), n_vocab] logits after those of the positions)"""
    model = llama_cpp.Llama(path, n_ctx=2 * N_TOKENS, logits_all=True, verbose=False)
    ids = model.tokenize(TEXT, add_bos=True)[:N_TOKENS]
    model.eval(ids)
    return ids, np.array(model.scores[positions], dtype=np.float64)


def is_near(library, path):
    positions = list(range(EVERY - 1, N_TOKENS, EVERY))
    ids, expected = llama_cpp_logits(path, positions)
    model = library.open(path)
    got = library.logits(model, ids, positions, "F16", expected.shape[1])
    library.lib.pn_model_close(model)
    kl = compare_logits.divergence(expected, got)
    same = (expected.argmax(-1) == got.argmax(-1)).sum()
    print(f"{path}: KL mean {kl.mean():.2e} max {kl.max():.2e}, same best token {same}/{len(kl)}", flush=True)
    return kl.mean() <= MAX_MEAN_KL


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    library = compare_logits.Library(os.environ["POSTERN_LIB"])
    near = [is_near(library, path) for path in sys.argv[1:]]
    return 0 if all(near) else 1


if __name__ == "__main__":
    sys.exit(main())
