# SPDX-License-Identifier: Apache-2.0
"""bench/depth.py: what few bits of keys and values do to a long text."""

import json
import os
import subprocess
import sys

from conftest import ROOT


def test_every_type_is_compared_with_f16(tiny_models, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("a bee and a cat " * 60, encoding="utf-8")
    script = [sys.executable, ROOT / "bench/depth.py", tiny_models["llama-q8"], text, "--tokens", "100", "--places", "2"]
    script += ["--continuations", "2", "--context", "256", "--lib", os.environ["POSTERN_LIB"]]
    done = subprocess.run([*script, "--json"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found) == {"f16", "q8", "k8v4", "q4"} and found["f16"]["same_tokens"] == 64
    assert all(0 <= row["found"] <= row["places"] == 2 for row in found.values())
    short = subprocess.run([*script, "--tokens", "9999"], capture_output=True, text=True, timeout=120)
    assert short.returncode == 1 and "are wanted" in short.stderr
