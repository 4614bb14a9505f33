#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: contention.py [options] MODEL.gguf

Decodes in turns alone and beside a job that keeps --busy CPUs computing, on the same --cpus CPUs, and prints the median
rates and which share of half the undisturbed speed is left: half is what is fair beside as many other threads. Other
load on the machine falls on both; what it leaves of the first shows how far to trust the second.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@contextlib.contextmanager
def busy(n, pin):
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=pin) for _ in range(n)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def decode_rate(args, pin):
    command = [args.postern, "run", args.model, "-p", "Tell me a story.", "--temp", "0", "--json"]
    command += ["-n", str(args.tokens), "--threads", str(args.threads)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True, preexec_fn=pin)
    return json.loads(done.stdout)["timings"]["decode_tokens_per_s"]


def main():
    parser = argparse.ArgumentParser(usage="contention.py [options] MODEL.gguf", description=__doc__.split("\n\n", 1)[1])
    parser.add_argument("model")
    parser.add_argument("--postern", default=ROOT / "build/release/postern", help="the command")
    parser.add_argument("--cpus", type=int, default=2, help="CPUs for both jobs (2)")
    parser.add_argument("--threads", type=int, default=2, help="threads of postern (2)")
    parser.add_argument("--busy", type=int, default=2, help="threads of the other job (2)")
    parser.add_argument("--tokens", type=int, default=128, help="tokens of a round (128)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each (5)")
    args = parser.parse_args()
    cpus = sorted(os.sched_getaffinity(0))[: args.cpus]

    def pin():
        os.sched_setaffinity(0, cpus)

    alone, beside = [], []
    for _ in range(args.rounds):
        alone.append(decode_rate(args, pin))
        with busy(args.busy, pin):
            beside.append(decode_rate(args, pin))
    for what, rates in (("alone", alone), (f"beside {args.busy} busy threads", beside)):
        print(f"{what:24} {statistics.median(rates):8.1f} tokens/s   {min(rates):.1f} to {max(rates):.1f}")
    print(f"{'of half the speed':24} {statistics.median(beside) / statistics.median(alone) * 2:8.0%}")


if __name__ == "__main__":
    main()
