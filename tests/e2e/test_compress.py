# SPDX-License-Identifier: Apache-2.0
"""postern compress: float weights in 4 and 8 bits, in a file that is used as it lies."""

import fcntl
import json
import re
import signal
import subprocess
import struct
import time
import xml.dom.minidom
from random import Random

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
    assert 0.5 <= in_4_bits / layers == report["ratio_reached"] <= 0.7


def without_times(report):
    """What a file can know of a report."""
    tensors = [{key: t[key] for key in t if key != "seconds"} for t in report["tensors"]]
    return {**{key: report[key] for key in report if key not in ("seconds", "file", "resumed")}, "tensors": tensors}


def test_inspect_shows_what_compress_did(postern, tiny_models, tmp_path):
    out = tmp_path / "out.gguf"
    report = compress(postern, tiny_models["gemma3-linear"], out, "--ratio", 0.5, "--group-size", 32)
    assert report["seconds"] > 0 and any(t.get("seconds", 0) > 0 for t in report["tensors"])
    page = json.loads(postern("inspect", out, "--json").stdout, parse_float=lambda text: float(f"{float(text):.6g}"))
    assert page["compression"] == without_times(report)
    short, full = (postern("inspect", out, *options).stdout for options in ([], ["--full"]))
    for page in (short, full):
        assert tiny_models["gemma3-linear"].name in page and "int4_asym, groups of 32, 50.0%" in page
        assert "calibration   none" in page and "error of weights: " in page
        assert "postern.compression.report" not in page
    assert "nearest: among the most sensitive" in full and "nearest: among" not in short
    plain = postern("inspect", tiny_models["gemma3-linear"], "--json")
    assert json.loads(plain.stdout)["compression"] is None
    assert "\ncompression\n" not in postern("inspect", tiny_models["gemma3-linear"]).stdout


def test_inspect_says_how_it_was_calibrated(postern, tiny_models, tmp_path):
    out, text = tmp_path / "out.gguf", ROOT / "tests/golden/multilingual.txt"
    common = ["--group-size", 32, "--samples", 16, "--sample-tokens", 64, "--force"]
    for options, is_self, ways, shown in (
        ([text, "--awq", "off", "--sensitivity", "hessian"], False, "scale-estimation, zero-search, gptq", "on 16 pieces"),
        (["self", "--gptq", "off"], True, "scale-estimation, zero-search, awq", "on the model's own text, 16 pieces"),
    ):
        report = compress(postern, tiny_models["llama-bias"], out, *common, "--calibration", *options)
        assert report["calibration"] == {"samples": 16, "sample_tokens": 64, "self": is_self, "ways": ways}
        assert report["sensitivity"] == ("measured" if is_self else "hessian")
        page = postern("inspect", out).stdout
        assert f"{shown} of 64 tokens, tried: {ways}\n" in page and f"sensitivity {report['sensitivity']}" in page
        assert "error of outputs: " in page


def test_reports_by_the_end_of_their_names(postern, tiny_models, tmp_path):
    """The same from the run and from the file, but for times."""
    out, model = tmp_path / "out.gguf", tiny_models["llama-bias"]
    for suffix in ("svg", "json", "txt"):
        first, second = tmp_path / f"first.{suffix}", tmp_path / f"second.{suffix}"
        printed = compress(postern, model, out, "--force", "--report", first, "--group-size", 32)
        assert printed.pop("resumed") == 0
        done = postern("inspect", out, "--report", second)
        assert done.returncode == 0, done.stderr
        if suffix == "json":
            assert json.loads(first.read_text()) == {**printed, "file": "out.gguf"}
            assert json.loads(second.read_text()) == {**without_times(printed), "file": "out.gguf"}
        elif suffix == "svg":
            assert first.read_text() == second.read_text()
        else:
            lines = second.read_text().splitlines()
            for tensor in printed["tensors"]:
                (line,) = (line for line in lines if line.split()[:1] == [tensor["name"]])
                assert str(tensor["bytes_after"]) in line and tensor.get("why", "") in line
    assert not list(tmp_path.glob("*.partial"))


def elements(picture, tag, kind=None):
    return [e for e in picture.getElementsByTagName(tag) if kind is None or kind in e.getAttribute("class").split()]


def test_the_picture_is_xml_with_every_matrix(postern, tiny_models, tmp_path):
    out, path = tmp_path / "a<&\"'>b.gguf", tmp_path / "picture.svg"
    report = compress(postern, tiny_models["llama-bias"], out, "--report", path, "--ratio", 0.6, "--group-size", 32)
    picture = xml.dom.minidom.parse(str(path))
    titles = [e.firstChild.data for e in picture.getElementsByTagName("title")]
    assert titles[0].startswith(out.name)
    for tensor in report["tensors"]:
        named = [title for title in titles if title.startswith(tensor["name"] + ":")]
        assert len(named) == (tensor["error"] > 0), tensor
    assert elements(picture, "rect", "four") and elements(picture, "rect", "eight") and elements(picture, "circle")
    assert not elements(picture, "script") and "prefers-color-scheme:dark" in path.read_text()
    for element in elements(picture, "rect"):
        x, y, width, height = (float(element.getAttribute(name) or 0) for name in ("x", "y", "width", "height"))
        assert 0 <= x <= x + width <= 960 and 0 <= y <= y + height <= 600


def test_a_report_replaces_nothing_unasked(postern, tiny_models, tmp_path):
    model, out, report = tiny_models["gemma3-linear"], tmp_path / "out.gguf", tmp_path / "report.json"
    report.write_text("mine")
    done = postern("compress", model, out, "--report", report)
    assert done.returncode == USAGE and "--force" in done.stderr and not out.exists()
    done = postern("compress", model, out, "--report", out)
    assert done.returncode == USAGE and "another name" in done.stderr and not out.exists()
    done = postern("compress", model, out, "--report", tmp_path / "no folder/report.svg")
    assert done.returncode == FILE and "no folder" in done.stderr and not out.exists()
    done = postern("compress", model, out, "--report", report, "--group-size", 48, "--force")
    assert done.returncode == USAGE
    compress(postern, model, out)
    done = postern("inspect", out, "--report", report)
    assert done.returncode == USAGE and "--force" in done.stderr and done.stdout == ""
    assert report.read_text() == "mine"
    assert postern("inspect", out, "--report", report, "--force").returncode == 0
    assert json.loads(report.read_text())["source"] == model.name
    done = postern("inspect", model, "--report", tmp_path / "other.svg")
    assert done.returncode == FILE and "postern compress" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix) == ["out.gguf", "report.json"]


def with_report(path, text):
    """The file with another text of the same length in the report's place."""
    data = path.read_bytes()
    at = data.index(b"postern.compression.report") + len(b"postern.compression.report") + 4
    (n,) = struct.unpack_from("<Q", data, at)
    old = data[at + 8 : at + 8 + n].decode().rstrip()
    new = text(old).encode()
    assert len(new) <= n
    spoilt = path.with_name("spoilt.gguf")
    spoilt.write_bytes(data[: at + 8] + new.ljust(n) + data[at + 8 + n :])
    return spoilt


def test_a_damaged_report_does_not_stop_inspect(postern, tiny_models, tmp_path):
    out = tmp_path / "out.gguf"
    compress(postern, tiny_models["llama-bias"], out, "--group-size", 32)
    for text, says in (
        (lambda old: old[:100], "no JSON object"),
        (lambda old: "[" * len(old), "no JSON object"),
        (lambda old: "{}", "source"),
        (lambda old: re.sub(r'"error":[^,}]*', '"error":[]', old, count=1), "error"),
        (lambda old: old.replace("blk.0.attn_q", "blk.0.\\u001b[1m"), "no tensor blk.0.\\x1b[1m"),
        (lambda old: "\x1b]0;x\x07", "no JSON object"),
    ):
        spoilt = with_report(out, text)
        done = postern("inspect", spoilt)
        assert done.returncode == 0 and "cannot be read: " in done.stdout and says in done.stdout, done
        assert "\x1b" not in done.stdout and "chat template" in done.stdout
        page = json.loads(postern("inspect", spoilt, "--json").stdout)
        assert says.split("\\")[0] in page["compression"]["error"]
        done = postern("inspect", spoilt, "--report", tmp_path / "r.svg")
        assert done.returncode == FILE and says in done.stderr and not (tmp_path / "r.svg").exists()


def test_a_hostile_report_steers_neither_terminal_nor_picture(postern, tiny_models, tmp_path):
    out, path = tmp_path / "out.gguf", tmp_path / "r.svg"
    compress(postern, tiny_models["llama-bias"], out, "--group-size", 32)
    evil = r'<script>\u001b[31m&\uffff'
    spoilt = with_report(out, lambda old: old.replace('"nearest"', json.dumps("a")).replace('"int4_asym"', f'"{evil}"'))
    done = postern("inspect", spoilt, "--full", "--report", path)
    assert done.returncode == 0 and "\x1b" not in done.stdout and r"<script>\x1B[31m" in done.stdout, done
    picture = xml.dom.minidom.parse(str(path))
    assert not elements(picture, "script")


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
    assert done.returncode == USAGE and "at least 1024 are needed" in done.stderr
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


def killed_run(command, out, seconds):
    """Whether it was killed before it was done."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
    if out.exists():
        assert "postern.compression.report" in read_keys(out)
        return False
    for left in out.parent.iterdir():
        assert left.name in ("out.gguf.partial", "out.gguf.journal.partial"), left
    return True


def test_a_killed_run_is_gone_on_with(postern_bin, tiny_models, tmp_path):
    """Ten times killed at random moments, calibrated and not: never a file that looks whole and is not, and in the
    end the bytes of a run that nobody killed."""
    random = Random(7)
    text = ROOT / "tests/golden/multilingual.txt"
    for options in ([], ["--calibration", text, "--samples", 16, "--sample-tokens", 64]):
        folder = tmp_path / str(len(options))
        folder.mkdir()
        out, whole = folder / "out.gguf", tmp_path / "whole.gguf"
        command = [postern_bin, "compress", tiny_models["llama-bias"], out, "--mode", "int4_asym", *options]
        command = [str(word) for word in command]
        start = time.monotonic()
        subprocess.run([str(whole) if word == str(out) else word for word in command] + ["--force"], check=True, capture_output=True)
        seconds = time.monotonic() - start
        for _ in range(5):
            while killed_run(command, out, random.random() * seconds):
                pass
            assert out.read_bytes() == whole.read_bytes()
            assert not (folder / "out.gguf.partial").exists()
            out.unlink()


def test_what_an_earlier_run_left_is_taken_only_if_it_is_whole(postern, postern_bin, tiny_models, tmp_path):
    out = tmp_path / "out.gguf"
    text = ROOT / "tests/golden/multilingual.txt"
    options = ["--mode", "int4_sym", "--calibration", text, "--samples", 16, "--sample-tokens", 64]
    compress(postern, tiny_models["llama-bias"], out, *options)
    whole = out.read_bytes()
    partial, journal = tmp_path / "out.gguf.partial", tmp_path / "out.gguf.journal.partial"
    command = [str(word) for word in (postern_bin, "compress", tiny_models["llama-bias"], out, *options)]
    out.unlink()
    wait = 0.02
    while not killed_run(command, out, wait) or not (partial.exists() and journal.read_bytes().count(b'"error"') > 1):
        out.unlink(missing_ok=True)
        wait *= 1.1
        assert wait < 60
    left, notes = partial.read_bytes(), journal.read_bytes()
    for name, damaged, lines in (
        ("bytes changed", bytes(byte ^ 1 for byte in left), notes),
        ("cut off", left[: len(left) // 2], notes),
        ("journal cut off", left, notes[: len(notes) // 2]),
        ("journal of garbage", left, b"{]\n" + bytes(range(256)) * 3),
        ("journal of another kind", left, b'{"key": 3, "gains": []}\n[1, 2]\n{"tensor": 1e9, "hash": {}}\n'),
        ("whole", left, notes),
    ):
        partial.write_bytes(damaged)
        journal.write_bytes(lines)
        report = compress(postern, tiny_models["llama-bias"], out, *options)
        assert out.read_bytes() == whole, name
        if "cut off" not in name:
            assert (report["resumed"] > 0) == (name == "whole"), (name, report["resumed"])
        assert [path.name for path in tmp_path.iterdir()] == ["out.gguf"]
        out.unlink()
    partial.write_bytes(left)
    journal.write_bytes(notes)
    compress(postern, tiny_models["llama-bias"], out, *options, "--ratio", 0.5)  # another result: nothing is taken
    done = compress(postern, tiny_models["llama-bias"], tmp_path / "fresh.gguf", *options, "--ratio", 0.5)
    assert done["bytes_after"] and out.read_bytes() == (tmp_path / "fresh.gguf").read_bytes()


def test_one_process_at_a_time_writes_a_file(postern, tiny_models, tmp_path):
    out = tmp_path / "out.gguf"
    with open(tmp_path / "out.gguf.partial", "wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = postern("compress", tiny_models["llama-bias"], out)
        assert done.returncode == FILE and "another process" in done.stderr
    assert not out.exists()
    compress(postern, tiny_models["llama-bias"], out)


def test_statistics_are_reused(postern, tiny_models, tmp_path):
    text = ROOT / "tests/golden/multilingual.txt"
    kept, model = tmp_path / "statistics.json", tiny_models["llama-bias"]
    options = ["--mode", "int4_sym", "--group-size", 32, "--statistics", kept, "--samples", 16, "--sample-tokens", 64]
    first = [*options, "--calibration", text]
    compress(postern, model, tmp_path / "a.gguf", *first)
    gains = json.loads(kept.read_text())["gains"]
    assert gains and all(gain > 0 for gain in gains.values())
    before = kept.stat().st_mtime_ns
    compress(postern, model, tmp_path / "b.gguf", *first, "--ratio", 0.5)  # the same for another ratio
    assert kept.stat().st_mtime_ns == before
    compress(postern, model, tmp_path / "c.gguf", *[x for x in first if x not in ("--statistics", kept)], "--ratio", 0.5)
    assert (tmp_path / "b.gguf").read_bytes() == (tmp_path / "c.gguf").read_bytes()
    kept.write_text("nothing of the kind")  # and made anew for other options, or when it is damaged
    compress(postern, model, tmp_path / "d.gguf", *first)
    assert json.loads(kept.read_text())["gains"] == gains
    assert (tmp_path / "d.gguf").read_bytes() == (tmp_path / "a.gguf").read_bytes()


def test_a_model_can_be_calibrated_by_what_it_says(postern, tiny_models, tmp_path):
    kept, model = tmp_path / "statistics.json", tiny_models["llama-bias"]
    options = ["--calibration", "self", "--mode", "int4_sym", "--samples", 8, "--sample-tokens", 32]
    compress(postern, model, tmp_path / "a.gguf", *options, "--statistics", kept)
    tokens = json.loads(kept.read_text())["tokens"]
    assert len(tokens) == 8 * 32 and len(set(tokens)) > 20
    compress(postern, model, tmp_path / "b.gguf", *options, "--statistics", kept)
    compress(postern, model, tmp_path / "c.gguf", *options, "--seed", 1, "--statistics", kept)
    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes()
    assert json.loads(kept.read_text())["tokens"] != tokens
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.gguf", "b.gguf", "c.gguf", "statistics.json"]


def test_every_sensitivity_and_way_of_rounding_runs(postern, tiny_models, tmp_path):
    text = ROOT / "tests/golden/multilingual.txt"
    calibrated = ["--calibration", text, "--samples", 16, "--sample-tokens", 64, "--group-size", 32]
    eights = set()
    for sensitivity in ("weight-error", "activation-variance", "hessian", "measured"):
        report = compress(postern, tiny_models["llama-bias"], tmp_path / f"{sensitivity}.gguf", *calibrated,
                          "--sensitivity", sensitivity, "--ratio", 0.7)
        assert 0.7 <= report["ratio"] < 0.9
        eights.add(tuple(t["name"] for t in report["tensors"] if t["type_after"].startswith("INT8_ASYM_CH")))
    assert len(eights) > 1
    seen = set()
    for index, switches in enumerate(((), ("--gptq", "off"), ("--scale-estimation", "off"), ("--gptq", "off", "--scale-estimation", "off"))):
        report = compress(postern, tiny_models["llama-bias"], tmp_path / f"{index}.gguf", *calibrated, "--ratio", 1, *switches)
        methods = {t["method"] for t in report["tensors"] if t.get("method")}
        assert not any(switch[2:6] in method for switch in switches if switch != "off" for method in methods), methods
        seen |= methods
    assert any("gptq" in method for method in seen) and any("scales" in method for method in seen)
    done = postern("compress", tiny_models["llama-bias"], tmp_path / "out.gguf", "--sensitivity", "hessian")
    assert done.returncode == USAGE and "needs calibration" in done.stderr


def test_a_memory_limit_is_kept_or_refused(postern, tiny_models, tmp_path):
    """The less there is, the less text is read; and less than eight pieces are none."""
    text, out = ROOT / "tests/golden/multilingual.txt", tmp_path / "out.gguf"
    options = ["--calibration", text, "--samples", 64, "--sample-tokens", 64, "--json", "--force"]
    read = []
    for kib in range(64, 8192, 64):
        done = postern("compress", tiny_models["llama-bias"], out, *options, "--memory-limit", f"{kib}K")
        if done.returncode == 0:
            read.append(json.loads(done.stdout)["calibration"]["samples"])
            if read[-1] == max(64, read[0]):
                break
        else:
            assert not read and "limit" in done.stderr and list(tmp_path.iterdir()) == []
    assert read == sorted(read) and read[0] < read[-1] and len(set(read)) > 2, read



def test_a_target_of_divergence_is_kept(postern, tiny_models, tmp_path):
    text, model = ROOT / "tests/golden/multilingual.txt", tiny_models["llama-bias"]
    options = ["--calibration", text, "--samples", 16, "--sample-tokens", 64, "--group-size", 32, "--awq", "off"]
    ends = [compress(postern, model, tmp_path / f"{r}.gguf", *options, "--ratio", r) for r in (1, 0)]
    kls = [divergence(postern, tmp_path / f"{r}.gguf", model, text) for r in (1, 0)]
    out, target = tmp_path / "out.gguf", (kls[0] * kls[1]) ** 0.5
    report = compress(postern, model, out, *options, "--target-kl", target)
    assert 0 < report["kl"] <= target and 0 < report["ratio"] < 1
    assert ends[1]["bytes_after"] > report["bytes_after"] > ends[0]["bytes_after"]
    assert compress(postern, model, out, *options, "--target-kl", 100, "--force")["ratio"] == 1
    out.unlink()
    done = postern("compress", model, out, *options, "--target-kl", kls[1] / 100)
    assert done.returncode == USAGE and "out of reach" in done.stderr
    assert not list(tmp_path.glob("out.gguf*"))
    done = postern("compress", model, out, "--target-kl", 1)
    assert done.returncode == USAGE and "calibration text" in done.stderr
