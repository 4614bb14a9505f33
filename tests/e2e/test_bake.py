# SPDX-License-Identifier: Apache-2.0
"""Keys and values that outlive a process: postern bake, and run with --cache-dir."""

import json
import shutil
import stat

import pytest
from command import USAGE, assert_fails, run_json

RULES = "You are the assistant of a small library. " + " ".join(
    f"Rule {i}: answer question {i} of a visitor kindly, and in one sentence." for i in range(20)
)


@pytest.fixture
def model(smollm2, tmp_path):
    """A copy by a link, beside which a file may be written."""
    path = tmp_path / "model.gguf"
    path.symlink_to(smollm2)
    return path


def answer(postern, model, *options, system=RULES):
    return run_json(postern, model, "--system", system, "-p", "When are you open?", "-n", "8", "--temp", "0", *options)


def test_a_baked_system_message_is_found(postern, model, tmp_path):
    cold = answer(postern, model)
    rules = tmp_path / "rules.txt"
    rules.write_text(RULES, encoding="utf-8")
    done = postern("bake", model, "--system", f"@{rules}", "--json")
    baked = json.loads(done.stdout)
    assert baked["tokens"] > 256 and baked["bytes"] == (tmp_path / "model.gguf.kv").stat().st_size
    warm = answer(postern, model)
    assert warm["text"] == cold["text"]
    assert warm["usage"]["restored_tokens"] == baked["tokens"] // 64 * 64
    assert cold["usage"]["restored_tokens"] == 0
    other = answer(postern, model, system="Be brief.")
    assert other["usage"]["restored_tokens"] == 0
    fewer = postern("run", model, "-p", "a", "-n", "1", "--kv-type", "q8", "--system", RULES)
    assert "it is not used" in fewer.stderr
    assert_fails(postern("bake", model, "--system", RULES), USAGE, "is there already", "--force")
    assert_fails(postern("bake", model), USAGE, "nothing to bake")
    assert postern("bake", model, "--system", RULES, "--kv-type", "q8", "--force").returncode == 0
    fewer = answer(postern, model, "--kv-type", "q8")
    assert fewer["usage"]["restored_tokens"] == baked["tokens"] // 64 * 64


def test_a_folder_keeps_what_was_said(postern, model, tmp_path):
    folder = tmp_path / "kept"
    cold = answer(postern, model, "--cache-dir", folder)
    warm = answer(postern, model, "--cache-dir", folder)
    assert cold["text"] == warm["text"]
    assert cold["usage"]["restored_tokens"] == 0 and warm["usage"]["restored_tokens"] > 256
    files = list(folder.iterdir())
    assert files and all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in files:
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
    damaged = postern("run", model, "--system", RULES, "-p", "When are you open?", "-n", "8", "--temp", "0",
                      "--cache-dir", folder, "--json")
    assert "damaged" in damaged.stderr and "removed" in damaged.stderr
    assert json.loads(damaged.stdout)["text"] == cold["text"]
    shutil.rmtree(folder)
    folder.write_text("not a folder")
    refused = postern("run", model, "-p", "a", "-n", "1", "--cache-dir", folder)
    assert refused.returncode == 0 and "cannot be opened" in refused.stderr


def test_a_pinned_system_message_is_for_a_chat(postern, model):
    assert_fails(postern("run", model, "--pin-system", "Be brief.", "-p", "a"), USAGE, "--pin-system is for a chat")
    assert_fails(postern("run", model, "--pin-system", "a", "--system", "b"), USAGE, "exclude each other")
