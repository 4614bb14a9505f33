# SPDX-License-Identifier: Apache-2.0
"""bench/compression_curve.py: every combination once, and what is there is not done again."""

import json
import subprocess
import sys

from conftest import ROOT

TEXT = ROOT / "tests/golden/multilingual.txt"


def curve(postern_bin, model, out, *options):
    return subprocess.run(
        [sys.executable, ROOT / "bench/compression_curve.py", model, "--text", TEXT, "--postern", postern_bin]
        + ["--out", out, "--no-plot", "--group-size", "32", "--ctx", "64", "--chunks", "4", *options],
        capture_output=True,
        text=True,
        check=False,
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


def test_wrong_options_are_said(postern_bin, tiny_models, tmp_path):
    model = tiny_models["llama-bias"]
    for says, *options in (
        ("NAME=MB:KL", "--point", "peer=1"),
        ("is not there", "--calibration", tmp_path / "none.txt"),
        ("ended with 2", "--modes", "int3"),
    ):
        done = curve(postern_bin, model, tmp_path, *options)
        assert done.returncode != 0 and says in done.stderr, done
