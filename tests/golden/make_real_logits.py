# SPDX-License-Identifier: Apache-2.0
"""Makes tests/golden/real/: what two published models compute, in float32 on their dequantised weights.

    python tests/golden/make_real_logits.py smollm2 PATH_OF_GGUF
    python tests/golden/make_real_logits.py gemma3 PATH_OF_GGUF

Packages and versions: reference.py. The models (not in the repository; file_sha256 names the exact file):

    smollm2   SmolLM2-135M-Instruct, Q4_1 with a Q8_0 embedding
    gemma3    Gemma 3 270M, Q4_K_M

NAME.json:

    file_sha256, architecture, n_vocab, versions of the packages
    sequences: list of
        name        "english", "chinese", "code"; for gemma3 also "long", which passes the window of 512
        text        what was tokenised; ids are cut at 120, those of "long" at 700
        ids         from the reference tokenizer built from the file's vocabulary; with BOS where the file asks for it
        positions   list of
            position    logits after ids[0..position]
            ids         the 50 most probable next tokens, most probable first
            logprobs    their natural-log probabilities
            rest        natural log of the probability that all other tokens share
        greedy      the 20 most probable tokens one after another, after the whole sequence
        margin      the least difference of the two best logits in these 20 steps: where it is small, another order of
                    summing may go another way
"""

import argparse
import hashlib
import json
import pathlib
import sys

import numpy as np
import reference
import tokenizers
from sentencepiece import SentencePieceProcessor
from sentencepiece import sentencepiece_model_pb2 as sentencepiece_proto

N_TOP = 50
N_GREEDY = 20
N_SHORT = 120
N_LONG = 700

ENGLISH = (
    "The old mill stood where the river bends, and nobody in the village could say who had built it. In winter the "
    "wheel was locked in ice; in spring it turned again, slowly at first, then so fast that the whole floor shook. "
    'My grandfather, who ground corn there for thirty-one years, used to tell us: "Listen to the stones. When they '
    'sing, the flour is good; when they cough, stop the wheel." He never explained what the difference'
)
CHINESE = (
    "今年的雨水比往年多，河边的稻田一片碧绿。清晨六点，王老师骑着自行车去镇上的小学上课，路上要经过三座桥和一个渡口。"
    "他常对学生们说：“读书不是为了记住答案，而是为了学会提问。”去年冬天，学校新建了一间图书室，里面有两千多本书，其中最受欢迎的是"
)
CODE = """#include <stdio.h>

/* Sum of the squares of the first n odd numbers. */
static long sum_of_odd_squares(int n)
{
    long total = 0;
    for (int i = 0; i < n; i++) {
        int odd = 2 * i + 1;
        total += (long)odd * odd;
    }
    return total;
}

int main(void)
{
    for (int n = 1; n <= 10; n++)
        printf("%d: %ld\\n", n,"""
HARBOUR = """

The harbour log for that week is unusual. On Monday the keeper counted eleven boats at the north pier and four at \
the south; on Tuesday a storm came from the west, and by evening only the four were left. He wrote the names of the \
missing ones in a column: Amalia, Two Brothers, Sea Rocket, Margarethe, Nord, Gannet, Perpetua. Next to each name he \
left room for a date, so that he could mark when it came home. The Gannet returned first, on Wednesday at noon, with \
a broken mast and a hold full of herring. The Two Brothers followed in the night. Then nothing came for two days.

What does a keeper do when nothing comes? He trims the lamp, he measures the wind, he writes numbers. The barometer \
stood at 742 millimetres on Thursday morning and had climbed to 751 by dusk. Water in the cellar: 14 centimetres. \
Oil left in the tank: about a third. He also wrote down a list of things that he had noticed but did not understand: \
the gulls were sitting inland, all facing the same way; the bell on the outer buoy had gone silent although the sea \
was rough; and someone had painted a small white cross on the door of the boathouse, quite low, at the height of a \
child's shoulder.

On Friday a telegram arrived from the next station, forty miles up the coast. It said that five boats had been seen \
sheltering behind the island, all afloat, and that their crews were well but hungry. The keeper read it aloud to the \
women who were waiting on the pier. One of them asked him to read the names again, and he did, slowly, first in the \
order of the telegram and then in the order of his own column: Amalia, Sea Rocket, Margarethe, Nord, Perpetua. After \
that he went up the stairs, one hundred and sixteen of them, lit the lamp although it was still day, and wrote in \
the log a single line: "All accounted for." The ink of that line is darker than the rest, as if he had pressed hard.

Years later his daughter sorted the papers and found a second column on the back of the page, in pencil, with other \
names and other dates. None of them were boats. There was Ingrid, who had waited on the pier with two children; \
there was old Peter, who rang the church bell every hour through the fog; there was the boy with the white paint. \
Beside the boy's name the keeper had written a question and, in a different hand, someone had answered it. The \
question was: "Why so low on the door?" And the answer: "Because the water will come up to here, and not one hand \
higher." She took a ruler down to the boathouse, which had been empty since the new pier was built, and measured \
from the sill to the faded cross. Then she looked up the highest tide of that week in her father's tables, added the \
height of the step, and sat down on the stones. The two numbers were"""
TEXTS = {"english": ENGLISH, "chinese": CHINESE, "code": CODE}
LONG_TEXT = ENGLISH + " was, but we all learned to hear it." + HARBOUR
LONG_POSITIONS = [100, 400, 510, 511, 512, 513, 600, N_LONG - 1]


def byte_level_tokenizer(reader):
    """Text to ids by the vocabulary and merges of the file, with the pre-tokenizer of SmolLM2's tokenizer.json."""
    tokens = reference.field(reader, "tokenizer.ggml.tokens")
    merges = [tuple(m.split(" ")) for m in reference.field(reader, "tokenizer.ggml.merges")]
    assert reference.field(reader, "tokenizer.ggml.pre") == "smollm"
    vocabulary = {token: i for i, token in enumerate(tokens)}
    tok = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=merges))
    tok.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Digits(individual_digits=True),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    return lambda text: tok.encode(text).ids


def sentencepiece_tokenizer(reader):
    """Text to ids by a SentencePiece BPE model of the file's pieces, scores and kinds; BOS first."""
    pieces = zip(
        *(reference.field(reader, f"tokenizer.ggml.{key}") for key in ("tokens", "scores", "token_type")), strict=True
    )
    bos, unk = (reference.field(reader, f"tokenizer.ggml.{key}_token_id") for key in ("bos", "unknown"))
    proto = sentencepiece_proto.ModelProto()
    proto.trainer_spec.model_type = sentencepiece_proto.TrainerSpec.BPE
    proto.trainer_spec.byte_fallback = True
    proto.trainer_spec.unk_id = unk
    proto.normalizer_spec.add_dummy_prefix = False
    proto.normalizer_spec.remove_extra_whitespaces = False
    kinds = sentencepiece_proto.ModelProto.SentencePiece
    for i, (piece, score, kind) in enumerate(pieces):
        if kind == kinds.USER_DEFINED:  # the converter wrote these with plain spaces
            piece = piece.replace(" ", "▁")
        proto.pieces.add(piece=piece, score=score, type=kinds.UNKNOWN if i == unk else kind)
    processor = SentencePieceProcessor(model_proto=proto.SerializeToString())
    return lambda text: [bos, *processor.encode(text)]


def tokenizer_of(reader):
    kinds = {"gpt2": byte_level_tokenizer, "llama": sentencepiece_tokenizer}
    return kinds[reference.field(reader, "tokenizer.ggml.model")](reader)


def top(logits, position):
    logprobs = reference.log_softmax(logits)
    order = np.argsort(-logprobs, kind="stable")
    rest = np.log(np.exp(logprobs[order[N_TOP:]]).sum())
    best = order[:N_TOP]
    return {
        "position": position,
        "ids": best.tolist(),
        "logprobs": [round(float(x), 6) for x in logprobs[best]],
        "rest": round(float(rest), 6),
    }


def greedy(model, ids):
    """(N_GREEDY ids, least margin), each step computed afresh from the whole sequence."""
    out, margins = [], []
    for _ in range(N_GREEDY):
        logits = reference.logits_at(model, ids + out, [len(ids) + len(out) - 1])[0]
        second, first = np.argsort(logits, kind="stable")[-2:]
        margins.append(float(logits[first] - logits[second]))
        out.append(int(first))
    return out, min(margins)


def sequence(model, name, text, ids, positions):
    logits = reference.logits_at(model, ids, positions)
    continuation, margin = greedy(model, ids)
    return {
        "name": name,
        "text": text,
        "ids": ids,
        "positions": [top(row, position) for row, position in zip(logits, positions, strict=True)],
        "greedy": continuation,
        "margin": round(margin, 6),
    }


def sequences(model, reader):
    encode = tokenizer_of(reader)
    for name, text in TEXTS.items():
        ids = encode(text)[:N_SHORT]
        assert len(ids) >= 60, (name, len(ids))
        yield sequence(model, name, text, ids, [round(i * (len(ids) - 1) / 8) for i in range(1, 9)])
    if reference.field(reader, "general.architecture") == "gemma3":
        ids = encode(LONG_TEXT)
        assert len(ids) >= N_LONG, len(ids)
        yield sequence(model, "long", LONG_TEXT, ids[:N_LONG], LONG_POSITIONS)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", choices=["smollm2", "gemma3"])
    parser.add_argument("gguf", type=pathlib.Path)
    args = parser.parse_args()
    model, reader = reference.load_model(args.gguf)
    result = {
        "file_sha256": hashlib.sha256(args.gguf.read_bytes()).hexdigest(),
        "architecture": reference.field(reader, "general.architecture"),
        "n_vocab": model.config.vocab_size,
        "versions": reference.versions(),
        "sequences": list(sequences(model, reader)),
    }
    path = pathlib.Path(__file__).parent / "real" / f"{args.name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
