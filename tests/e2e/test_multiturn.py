# SPDX-License-Identifier: Apache-2.0
"""bench/multiturn.py: a replay of conversations with and without reuse."""

import json
import os
import subprocess
import sys

from conftest import ROOT


def test_turns_are_reused_and_counted(tiny_models, tmp_path):
    talk = [{"role": role, "content": f"{role} says {i}"} for i, role in enumerate(["user", "assistant"] * 3)]
    dialogues = tmp_path / "talks.jsonl"
    dialogues.write_text("".join(json.dumps({"messages": talk[:n]}) + "\n" for n in (6, 4, 1)), encoding="utf-8")
    script = [sys.executable, ROOT / "bench/multiturn.py", tiny_models["llama-q8"], dialogues, "--json"]
    done = subprocess.run([*script, "--lib", os.environ["POSTERN_LIB"]], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["all turns"]["turns"] == 6 and found["first turns"]["turns"] == 3
    assert 0 < found["all turns"]["reused_tokens"] < found["all turns"]["prompt_tokens"]
    assert all(part["ratio"] > 0 for part in found.values())
