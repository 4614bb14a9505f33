#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: peer_llama_cpp.py MODEL.gguf [options]      (needs the package llama-cpp-python)

Times llama.cpp as compare.py wants it: prefill of a batch of tokens and decoding of single ones, each with `depth`
tokens in the context before. Prints one JSON object: prefill and decode in tokens per second, version and features.

The C interface is called directly, so that no Python stands between the tokens, and nothing is sampled: logits of the
last token are computed, as its own llama-bench does. One untimed round of both comes first.
"""

import argparse
import contextlib
import json
import os
import random
import re
import sys
import time


@contextlib.contextmanager
def quiet():
    """The library writes to standard error as it likes."""
    saved, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)


class Peer:
    def __init__(self, llama, options):
        self.llama, self.options = llama, options
        model_params = llama.llama_model_default_params()
        model_params.use_extra_bufts = not options.no_extra_bufts
        model_params.n_gpu_layers = 0
        self.model = llama.llama_model_load_from_file(options.model.encode(), model_params)
        if not self.model:
            sys.exit(f"peer_llama_cpp.py: {options.model} cannot be loaded")
        longest = max(options.prompt, options.gen + 1)
        params = llama.llama_context_default_params()
        params.n_ctx = options.depth + longest + 64
        params.n_batch = max(options.depth, longest)
        params.n_threads = params.n_threads_batch = options.threads
        self.context = llama.llama_init_from_model(self.model, params)
        if not self.context:
            sys.exit("peer_llama_cpp.py: no context")
        self.batch = llama.llama_batch_init(params.n_batch, 0, 1)
        n_vocab = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self.model))
        draw = random.Random(1)
        self.ids = [draw.randrange(n_vocab // 2) for _ in range(options.depth + longest + 1)]
        self.position = 0

    def compute(self, n):
        """n more tokens in one batch, with the logits of the last."""
        if n == 0:
            return
        batch = self.batch
        for i in range(n):
            batch.token[i] = self.ids[self.position + i]
            batch.pos[i] = self.position + i
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = 0
            batch.logits[i] = i == n - 1
        batch.n_tokens = n
        if self.llama.llama_decode(self.context, batch) != 0:
            sys.exit("peer_llama_cpp.py: llama_decode failed")
        self.llama.llama_synchronize(self.context)
        self.position += n

    def restart(self, depth):
        self.llama.llama_memory_clear(self.llama.llama_get_memory(self.context), False)
        self.position = 0
        self.compute(depth)

    def prefill(self):
        self.restart(self.options.depth)
        start = time.perf_counter()
        self.compute(self.options.prompt)
        return self.options.prompt / (time.perf_counter() - start)

    def decode(self):
        self.restart(max(self.options.depth, 1))
        self.compute(1)
        start = time.perf_counter()
        for _ in range(self.options.gen):
            self.compute(1)
        return self.options.gen / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--prompt", type=int, default=512, help="tokens of prefill")
    parser.add_argument("--gen", type=int, default=128, help="tokens of decode")
    parser.add_argument("--depth", type=int, default=0, help="tokens in the context before either")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--no-extra-bufts", action="store_true", help="weights as in the file, not repacked")
    options = parser.parse_args()

    import llama_cpp
    from llama_cpp import llama_cpp as llama

    with quiet():
        llama.llama_backend_init()
        peer = Peer(llama, options)
        peer.prefill()
        result = {"prefill": peer.prefill(), "decode": peer.decode()}
    features = re.findall(r"(\w+) = 1", llama.llama_print_system_info().decode())
    result.update(version=f"llama-cpp-python {llama_cpp.__version__}", features=" ".join(features))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
