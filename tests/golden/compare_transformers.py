# SPDX-License-Identifier: Apache-2.0
"""Compares a folder that `postern compress --format compressed-tensors` wrote with the same model run by postern.

    POSTERN_LIB=build/release/libpostern.so python tests/golden/compare_transformers.py FOLDER MODEL.gguf

needs the packages torch, transformers and compressed-tensors (int4_asym: 0.15 of it). MODEL.gguf is made of the same
source with the same options but --format; with --ratio 1 and --ignore token_embd.weight the weights are the same too.

Prints which lines of multilingual.txt give other tokens, and the divergence of the logits, which transformers computes
in floats. Exits with 1 when a line differs or the mean divergence passes 1e-5.
"""

import ctypes
import os
import pathlib
import sys

import compare_logits
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

BOS_AND_CONTROL = 3  # PN_TOKENIZE_*
N_TOKENS, EVERY, MAX_MEAN_KL = 256, 16, 1e-5
TEXT = (pathlib.Path(__file__).parent / "multilingual.txt").read_text(encoding="utf-8")


class PnTokens(ctypes.Structure):
    _fields_ = [("ids", ctypes.POINTER(ctypes.c_int32)), ("n", ctypes.c_size_t)]


def tokens(library, model, text):
    out, data = PnTokens(), text.encode()
    library.call("pn_tokenize", model, data, ctypes.c_size_t(len(data)), BOS_AND_CONTROL, ctypes.byref(out))
    ids = out.ids[: out.n]
    library.lib.pn_tokens_free(ctypes.byref(out))
    return ids


def compare_tokens(library, model, tokenizer):
    n_other = 0
    for line in [*TEXT.splitlines(), TEXT]:
        if tokens(library, model, line) != tokenizer(line)["input_ids"]:
            print(f"other tokens: {line[:70]!r}")
            n_other += 1
    return n_other == 0


def compare_logits_of(library, model, folder, ids):
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    positions = list(range(EVERY - 1, len(ids), EVERY))
    with torch.no_grad():
        expected = theirs(torch.tensor([ids])).logits[0, positions].double().numpy()
    got = library.logits(model, ids, positions, "F32", expected.shape[1])
    kl = compare_logits.divergence(expected, got)
    same = (expected.argmax(-1) == got.argmax(-1)).sum()
    print(f"KL mean {kl.mean():.2e} max {kl.max():.2e}, same best token {same}/{len(kl)}")
    return kl.mean() <= MAX_MEAN_KL


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder, gguf = sys.argv[1:]
    library = compare_logits.Library(os.environ["POSTERN_LIB"])
    model, tokenizer = library.open(gguf), AutoTokenizer.from_pretrained(folder)
    same = compare_tokens(library, model, tokenizer)
    near = compare_logits_of(library, model, folder, tokens(library, model, TEXT)[:N_TOKENS])
    library.lib.pn_model_close(model)
    return 0 if same and near else 1


if __name__ == "__main__":
    sys.exit(main())
