#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: multiturn.py [options] MODEL.gguf DIALOGUES.jsonl

Replays recorded conversations turn by turn and times the first token of each answer: with what earlier turns and other
conversations left in the cache, and reading everything again, in turns. A line of DIALOGUES is an object with
"messages" (role and content); those of users and assistants count, and the recorded answer becomes history, so that
both ways see the same prompts. Each conversation has a session of its own.

Prints a table, or with --json an object: milliseconds and ratios, over all turns, over first turns, and over the first
turns of all conversations but the first, whose system prompt is there already.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/e2e"))
from postern import PREFIX_CACHE_OFF, Library  # noqa: E402


def conversations(path, system, limit, max_turns):
    """[[prompt messages of each turn]]"""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        history, turns = [{"role": "system", "content": system}] if system else [], []
        for message in json.loads(line)["messages"]:
            if message["role"] not in ("user", "assistant") or not message.get("content"):
                continue
            if message["role"] == (history[-1]["role"] if history else "assistant"):
                continue  # templates want them to alternate
            history = [*history, {"role": message["role"], "content": message["content"]}]
            if message["role"] == "user" and len(turns) < max_turns:
                turns.append(history)
        if turns:
            found.append(turns)
    return found[:limit]


def first_token_ms(session, prompt, sampling):
    result = session.generate(prompt, max_tokens=1, sampling=sampling, ignore_eos=True)
    return result.ttft_seconds * 1e3, result.n_reused


def replay(library, args):
    """[(turn, tokens of the prompt, reused, ms with reuse, ms without)]"""
    rows, sampling = [], library.sampling(temperature=0)
    with library.open(args.model, args.threads) as warm, library.open(args.model, args.threads, PREFIX_CACHE_OFF) as cold:
        for turns in conversations(args.dialogues, args.system.read_text() if args.system else "", args.conversations,
                                   args.turns):
            with warm.session(n_ctx=args.ctx) as session, cold.session(n_ctx=args.ctx) as again:
                for turn, messages in enumerate(turns):
                    prompt = warm.chat_tokenize(messages)
                    if len(prompt) >= session.stats().n_ctx:
                        break
                    reused_ms, n_reused = first_token_ms(session, prompt, sampling)
                    again.sync([1])  # another text, of which nothing can be reused
                    again_ms, _ = first_token_ms(again, prompt, sampling)
                    rows.append((turn, len(prompt), n_reused, reused_ms, again_ms))
    return rows


def summary(rows):
    reused, again = [row[3] for row in rows], [row[4] for row in rows]
    return {
        "turns": len(rows),
        "prompt_tokens": statistics.mean(row[1] for row in rows),
        "reused_tokens": statistics.mean(row[2] for row in rows),
        "reused_ms": statistics.mean(reused),
        "reused_p50_ms": statistics.median(reused),
        "reread_ms": statistics.mean(again),
        "ratio": statistics.mean(reused) / statistics.mean(again),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("dialogues", type=Path)
    parser.add_argument("--lib", type=Path, default=ROOT / "build/release/libpostern.so")
    parser.add_argument("--system", type=Path, help="file with the system prompt of all conversations")
    parser.add_argument("--conversations", type=int, default=6)
    parser.add_argument("--turns", type=int, default=6, help="of each conversation at most")
    parser.add_argument("--ctx", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = replay(Library(args.lib), args)
    if not rows:
        sys.exit(f"{args.dialogues}: no turn fits the context")
    firsts = [row for row in rows if row[0] == 0]
    parts = {"all turns": rows, "first turns": firsts, "first turns but the very first": firsts[1:]}
    found = {name: summary(part) for name, part in parts.items() if part}
    if args.json:
        print(json.dumps(found, indent=1))
        return
    print("| | turns | tokens | reused | ms with reuse | ms reading all | ratio |\n" + "| --- " * 7 + "|")
    for name, s in found.items():
        print(f"| {name} | {s['turns']} | {s['prompt_tokens']:.0f} | {s['reused_tokens']:.0f} | {s['reused_ms']:.0f} "
              f"| {s['reread_ms']:.0f} | {s['ratio']:.3f} |")


if __name__ == "__main__":
    main()
