# SPDX-License-Identifier: Apache-2.0
"""bench/compression_curve.py: every combination once, what is there is not done again, and is drawn without a model."""

import json
import subprocess
import sys

import pytest
from conftest import ROOT

TEXT = ROOT / "tests/golden/multilingual.txt"


def script(*options):
    return subprocess.run(
        [sys.executable, ROOT / "bench/compression_curve.py", *options], capture_output=True, text=True, check=False
    )


def curve(postern_bin, model, out, *options):
    return script(
        *[model, "--text", TEXT, "--postern", postern_bin, "--out", out, "--no-plot"],
        *["--group-size", "32", "--ctx", "64", "--chunks", "4", *options],
    )


def rows(table):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("| int")]


def test_finished_runs_are_kept(postern_bin, tiny_models, tmp_path):
    model = tiny_models["llama-bias"]
    first = curve(postern_bin, model, tmp_path, "--modes", "int4_sym,int8_sym", "--ratios", "0.5,1")
    assert first.returncode == 0, first.stderr
    assert [row[:3] for row in rows(first.stdout)] == [
        ["int4_sym", "default", "0.5"],
        ["int4_sym", "-", "1"],
        ["int8_sym", "-", "-"],
    ]
    megabytes = [run["bytes_after"] for run in json.loads((tmp_path / "runs.json").read_text()).values()]
    assert megabytes[1] < megabytes[0] < megabytes[2]
    again = curve(postern_bin, model, tmp_path, "--modes", "int8_sym,int4_sym", "--ratios", "1,0.5", "--point", "a b=1.5:0.2")
    assert again.stderr.count("(was there)") == 3
    assert sorted(rows(again.stdout)) == sorted(rows(first.stdout)) and "| a b | | | 1.5 | | 0.2 |" in again.stdout
    more = curve(postern_bin, model, tmp_path, "--sensitivities", "weight-error", "--ratios", "0.5,1")
    assert more.stderr.count("(was there)") == 1 and len(rows(more.stdout)) == 2, more.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["curve.md", "runs.json"]


def test_stored_runs_are_shown_without_a_model(postern_bin, tiny_models, tmp_path):
    tables = {}
    for name in ("llama-bias", "gemma3-linear"):
        done = curve(postern_bin, tiny_models[name], tmp_path / name, "--ratios", "0.5,1")
        assert done.returncode == 0, done.stderr
        tables[name] = done.stdout
    both = script("--stored", tmp_path / "llama-bias", tmp_path / "gemma3-linear", "--no-plot", "--out", tmp_path / "both")
    assert both.stdout == "\n".join(tables.values()), both.stderr
    assert (tmp_path / "both/curve.md").read_text() == both.stdout
    point = f"{tiny_models['gemma3-linear'].name}:a peer=1.5:0.2"
    one = script("--stored", tmp_path / "llama-bias", "--no-plot", "--out", tmp_path / "both", "--point", point)
    assert one.stdout == tables["llama-bias"]
    other = script("--stored", tmp_path / "gemma3-linear", "--no-plot", "--out", tmp_path / "both", "--point", point)
    assert other.stdout == tables["gemma3-linear"] + "| a peer | | | 1.5 | | 0.2 | | | |\n"


def test_a_picture_of_stored_runs(postern_bin, tiny_models, tmp_path):
    pytest.importorskip("matplotlib")
    done = curve(postern_bin, tiny_models["llama-bias"], tmp_path, "--ratios", "0.5,1")
    assert done.returncode == 0, done.stderr
    drawn = script("--stored", tmp_path, "--out", tmp_path, "--point", "a peer=0.1:0.2")
    assert drawn.returncode == 0, drawn.stderr
    picture = (tmp_path / "curve.svg").read_text()
    assert all(word in picture for word in (tiny_models["llama-bias"].name, "int4_sym, default", "a peer", "megabytes"))


def test_folders_without_runs_are_said(tmp_path):
    (tmp_path / "runs.json").write_text("no object")
    for says, *options in (
        ("does not hold the runs", "--stored", tmp_path / "none"),
        ("does not hold the runs", "--stored", tmp_path),
        ("takes no model", "model.gguf", "--stored", tmp_path),
        ("--stored runs", "--no-plot"),
    ):
        done = script(*options, "--out", tmp_path / "out")
        assert done.returncode != 0 and says in done.stderr, done


def test_wrong_options_are_said(postern_bin, tiny_models, tmp_path):
    model = tiny_models["llama-bias"]
    for says, *options in (
        ("NAME=MB:KL", "--point", "peer=1"),
        ("is not there", "--calibration", tmp_path / "none.txt"),
        ("ended with 2", "--modes", "int3"),
    ):
        done = curve(postern_bin, model, tmp_path, *options)
        assert done.returncode != 0 and says in done.stderr, done
