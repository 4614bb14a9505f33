# SPDX-License-Identifier: Apache-2.0
"""postern compress: float weights in 4 and 8 bits, in a file that is used as it lies."""

import json
import signal
import subprocess
import time

from conftest import ROOT
from gguf_keys import read_keys

FAILED, USAGE, FILE = 1, 2, 3
MODES = ("int4_asym", "int4_sym", "int8_asym", "int8_sym")


def compress(postern, model, out, *options):
    done = postern("compress", model, out, "--json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_mode_and_group_size_runs(postern, tiny_models, tmp_path):
    for name in ("llama-bias", "gemma3-linear"):
        for mode in MODES:
            for group in (32, -1):
                out = tmp_path / f"{name}-{mode}-{group}.gguf"
                report = compress(postern, tiny_models[name], out, "--mode", mode, "--group-size", group)
                assert report["bytes_after"] < report["bytes_before"]
                done = postern("run", out, "-p", "Once", "--max-tokens", 8, "--temp", 0)
                assert done.returncode == 0, (out, done.stderr)


def test_8_bits_say_what_floats_say(postern, tiny_models, tmp_path):
    """The tiny models are random, so that their best token wins by little: the first ones agree."""
    out = tmp_path / "out.gguf"
    compress(postern, tiny_models["llama-bias"], out, "--mode", "int8_asym")
    texts = [
        json.loads(postern("run", path, "-p", "Once", "--max-tokens", 4, "--temp", 0, "--json").stdout)["text"]
        for path in (tiny_models["llama-bias"], out)
    ]
    assert texts[0] == texts[1]


def test_report_file_and_inspect_agree(postern, tiny_models, tmp_path):
    out = tmp_path / "out.gguf"
    report = compress(postern, tiny_models["gemma3-linear"], out, "--ratio", 0.5, "--group-size", 32)
    keys = read_keys(out)
    inside = json.loads(keys["postern.compression.report"])
    assert inside["mode"] == "int4_asym" and inside["ratio"] == 0.5
    assert inside["source"] == tiny_models["gemma3-linear"].name and inside["source_hash"].startswith("xxh3-128:")
    types = {t["name"]: t["type_after"] for t in inside["tensors"]}
    tensors = {t["name"]: t for t in report["tensors"]}
    page = json.loads(postern("inspect", out, "--json", "--full").stdout)
    for tensor in page["tensor_list"]:
        assert tensor["type"] == tensors[tensor["name"]]["type_after"]
        assert types.get(tensor["name"], tensor["type"]) == tensor["type"]
    in_4_bits = sum(t["bytes_before"] for t in report["tensors"] if t["type_after"].startswith("INT4"))
    layers = sum(t["bytes_before"] for t in report["tensors"] if t["name"].startswith("blk.") and t["type_after"].startswith("INT"))
    assert 0.5 <= in_4_bits / layers == report["ratio"] <= 0.7


def divergence(postern, model, base, text):
    done = postern("perplexity", model, "--text", text, "--against", base, "--ctx", 64, "--chunks", 20, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["kl"]


def test_calibration_brings_the_model_nearer_to_its_base(postern, tiny_models, tmp_path):
    text = ROOT / "tests/golden/multilingual.txt"
    for name in ("llama-bias", "gemma3-linear"):
        base, plain, calibrated = tiny_models[name], tmp_path / "plain.gguf", tmp_path / "calibrated.gguf"
        options = ["--mode", "int4_sym", "--group-size", 32, "--ratio", 1, "--force"]
        compress(postern, base, plain, *options)
        report = compress(postern, base, calibrated, *options, "--calibration", text, "--samples", 16, "--sample-tokens", 64)
        assert any(tensor.get("output_error", 0) > 0 for tensor in report["tensors"])
        assert divergence(postern, calibrated, base, text) < divergence(postern, plain, base, text)


def test_a_short_calibration_text_is_refused(postern, tiny_models, tmp_path):
    text = tmp_path / "short.txt"
    text.write_text("Too short.")
    done = postern("compress", tiny_models["llama-bias"], tmp_path / "out.gguf", "--calibration", text)
    assert done.returncode == USAGE and "at least 512 are needed" in done.stderr
    done = postern("compress", tiny_models["llama-bias"], tmp_path / "out.gguf", "--calibration", tmp_path / "none.txt")
    assert done.returncode == FILE and "none.txt" in done.stderr
    assert [path.name for path in tmp_path.iterdir() if path.suffix] == ["short.txt"]


def test_text_says_sizes(postern, tiny_models, tmp_path):
    done = postern("compress", tiny_models["gemma3-linear"], tmp_path / "out.gguf")
    assert done.returncode == 0 and "bits per weight" in done.stdout and "INT8_ASYM_CH_R16" in done.stdout


def test_what_cannot_be_done_leaves_no_file(postern, tiny_models, tmp_path):
    model, out = tiny_models["gemma3-linear"], tmp_path / "out.gguf"
    for code, says, *options in (
        (USAGE, "32, 64, 128", "--group-size", 48),
        (USAGE, "0 to 1", "--ratio", 2),
        (USAGE, "the least is", "--target-bytes", "1K"),
        (USAGE, "900M or 1.2G", "--target-bytes", "much"),
        (USAGE, "one of int4_asym", "--mode", "int3"),
    ):
        done = postern("compress", model, out, *options)
        assert done.returncode == code and says in done.stderr, (options, done)
    done = postern("compress", tiny_models["llama-q8"], out)
    assert done.returncode == FILE and "compress the model's F16" in done.stderr
    done = postern("compress", tiny_models["llama-gqa"], out)
    assert done.returncode == FILE and "no matrix" in done.stderr
    out.write_bytes(b"mine")
    done = postern("compress", model, out)
    assert done.returncode == USAGE and "--force" in done.stderr and out.read_bytes() == b"mine"
    assert [path.name for path in tmp_path.iterdir() if path.suffix] == ["out.gguf"]


def test_a_full_disk_is_said(postern_bin, tiny_models, tmp_path):
    """A limit on the size of files stands for the disk."""
    script = 'trap "" XFSZ; ulimit -f 8; exec "$0" compress "$1" "$2"'
    done = subprocess.run(
        ["bash", "-c", script, postern_bin, tiny_models["gemma3-linear"], tmp_path / "out.gguf"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == FILE and "out.gguf" in done.stderr, done
    assert list(tmp_path.iterdir()) == []


def test_a_killed_run_leaves_nothing_that_looks_whole(postern_bin, tiny_models, tmp_path):
    out = tmp_path / "out.gguf"
    for moment in range(10):
        process = subprocess.Popen(
            [postern_bin, "compress", tiny_models["llama-bias"], out, "--force"], stdout=subprocess.DEVNULL
        )
        time.sleep(0.002 * moment)
        process.send_signal(signal.SIGKILL)
        process.wait()
        if out.exists():  # it was faster
            assert "postern.compression.report" in read_keys(out)
            out.unlink()
        for left in tmp_path.iterdir():
            assert left.name.endswith(".partial"), left
