#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: depth.py [options] MODEL.gguf TEXT

What KV caches of few bits do to a long text, beyond a perplexity. Retrieval: a sentence with a number is put into TEXT at
several depths, and the model is asked for it at the end. Continuation: the model goes on from the end of TEXT, greedily;
how many of the tokens are those that it writes with F16 keys and values, until the first other one.

Prints a table, or with --json an object, one row for each KV type.
"""

import argparse
import json
import random
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/e2e"))
from postern import PREFIX_CACHE_OFF, Library  # noqa: E402

TYPES = {"f16": 0, "q8": 2, "k8v4": 4, "q4": 3}
ASK = "\n\nQuestion: What is the number of the {name}? Answer: The number of the {name} is"
NAMES = ("green door", "old bridge", "north tower", "market hall", "stone well", "red barn", "long pier", "glass house")


def with_needle(model, tokens, depth, name, number):
    """The tokens with a sentence at a depth of 0 to 1, and the question after them."""
    at = int(len(tokens) * depth)
    needle = model.tokenize(f"\n\nThe number of the {name} is {number}. Remember it.\n\n")
    return [*tokens[:at], *needle, *tokens[at:], *model.tokenize(ASK.format(name=name))]


def retrieval(model, session, tokens, sampling, places):
    """For each place whether the number comes back."""
    chance, right = random.Random(1), []
    for i in range(places):
        number, name = chance.randrange(1000, 9999), NAMES[i % len(NAMES)]
        prompt = with_needle(model, tokens, (i + 0.5) / places, name, number)
        said = session.generate(prompt, max_tokens=8, sampling=sampling).text
        right.append(str(number).encode() in said)
    return right


def same_tokens(a, b):
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return n


def measure(args):
    library = Library(args.lib)
    sampling, rows, written = library.sampling(temperature=0), {}, {}
    with library.open(args.model, args.threads, PREFIX_CACHE_OFF) as model:
        whole = model.tokenize(args.text.read_text(encoding="utf-8"), bos=True)
        if len(whole) < args.tokens:
            sys.exit(f"{args.text}: {len(whole)} tokens, and {args.tokens} are wanted")
        for name, kv_type in TYPES.items():
            with model.session(n_ctx=args.context or args.tokens + 256, kv_type=kv_type) as session:
                ends = [args.tokens - i * args.tokens // 16 for i in range(args.continuations)]
                written[name] = [session.generate(whole[:end], max_tokens=64, sampling=sampling, ignore_eos=True).tokens
                                 for end in ends]
                found = retrieval(model, session, whole[: args.tokens], sampling, args.places)
            same = [same_tokens(a, b) for a, b in zip(written[name], written["f16"])]
            rows[name] = {"found": sum(found), "places": len(found), "same_tokens": statistics.mean(same)}
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--lib", type=Path, default=ROOT / "build/release/libpostern.so")
    parser.add_argument("--tokens", type=int, default=8000, help="of the text (default 8000)")
    parser.add_argument("--context", type=int, default=0, help="tokens that fit (default: 256 more)")
    parser.add_argument("--places", type=int, default=8, help="depths at which something is hidden (default 8)")
    parser.add_argument("--continuations", type=int, default=4, help="of 64 tokens each (default 4)")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = measure(args)
    if args.json:
        print(json.dumps(rows, indent=1))
        return
    print("| | numbers found | tokens of 64 as with f16 |\n| --- | --- | --- |")
    for name, row in rows.items():
        print(f"| {name} | {row['found']} of {row['places']} | {row['same_tokens']:.0f} |")


if __name__ == "__main__":
    main()
