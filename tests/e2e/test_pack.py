# SPDX-License-Identifier: Apache-2.0
"""postern pack: the same numbers in a file that is used as it lies."""

import json
import subprocess

from gguf_keys import read_keys

USAGE, FILE = 2, 3
ADDED = {"general.alignment", "postern.layout"}


def answer(postern, model, precision="high"):
    done = postern("run", model, "-p", "Once upon a time", "--max-tokens", 24, "--temp", 0, "--precision", precision, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["text"]


def pack(postern, model, out, *options):
    done = postern("pack", model, out, *options)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_packed_model_says_the_same(postern, tiny_models, tmp_path):
    for name, model in tiny_models.items():
        out = tmp_path / f"{name}.gguf"
        pack(postern, model, out)
        for precision in ("high", "exact", "fast"):
            assert answer(postern, out, precision) == answer(postern, model, precision), (name, precision)


def test_keys_stay_and_tensors_are_named_as_packed(postern, tiny_models, tmp_path):
    model, out = tiny_models["gemma3-window"], tmp_path / "packed.gguf"
    pack(postern, model, out)
    before, after = read_keys(model), read_keys(out)
    assert {key: value for key, value in after.items() if key not in ADDED} == {
        key: value for key, value in before.items() if key not in ADDED
    }
    assert after["postern.layout"] == b"R16"
    page = json.loads(postern("inspect", out, "--json", "--full").stdout)
    plain = json.loads(postern("inspect", model, "--json", "--full").stdout)
    for a, b in zip(plain["tensor_list"], page["tensor_list"], strict=True):
        matrix = len(a["shape"]) == 2
        assert (a["name"], a["shape"]) == (b["name"], b["shape"])
        assert b["type"] == (a["type"] + "_R16" if matrix else a["type"])


def test_packing_twice_changes_nothing(postern, tiny_models, tmp_path):
    once, twice = tmp_path / "once.gguf", tmp_path / "twice.gguf"
    pack(postern, tiny_models["llama-q8"], once)
    pack(postern, once, twice)
    assert once.read_bytes() == twice.read_bytes()


def test_json(postern, tiny_models, tmp_path):
    out = tmp_path / "out.gguf"
    done = postern("pack", tiny_models["llama-q8"], out, "--json")
    assert json.loads(done.stdout) == {"file": str(out), "bytes": out.stat().st_size}


def test_a_file_is_replaced_only_by_force(postern, tiny_models, tmp_path):
    out = tmp_path / "out.gguf"
    out.write_bytes(b"mine")
    done = postern("pack", tiny_models["llama-q8"], out)
    assert done.returncode == USAGE and "--force" in done.stderr
    assert out.read_bytes() == b"mine"
    pack(postern, tiny_models["llama-q8"], out, "--force")
    assert out.read_bytes()[:4] == b"GGUF"


def test_a_failure_leaves_no_file(postern, tiny_models, tmp_path):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(tiny_models["llama-q8"].read_bytes()[:-100])
    done = postern("pack", broken, tmp_path / "out.gguf")
    assert done.returncode == FILE and "cut off or damaged" in done.stderr
    done = postern("pack", tiny_models["llama-q8"], tmp_path / "no folder" / "out.gguf")
    assert done.returncode == FILE and "no folder" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != "") == ["broken.gguf"]


def test_a_full_disk_is_said(postern_bin, tiny_models, tmp_path):
    """A limit on the size of files stands for the disk."""
    script = 'trap "" XFSZ; ulimit -f 8; exec "$0" pack "$1" "$2"'
    done = subprocess.run(
        ["bash", "-c", script, postern_bin, tiny_models["llama-q8"], tmp_path / "out.gguf"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == FILE and "out.gguf" in done.stderr, done
    assert list(tmp_path.iterdir()) == []


def test_a_packed_matrix_must_lie_on_a_cache_line(postern, tiny_models, tmp_path):
    out = tmp_path / "packed.gguf"
    pack(postern, tiny_models["llama-q8"], out)
    data = bytearray(out.read_bytes())
    at = data.index(b"general.alignment") + len(b"general.alignment") + 4
    assert int.from_bytes(data[at : at + 4], "little") == 64
    data[at : at + 4] = (8).to_bytes(4, "little")
    out.write_bytes(data)
    done = postern("run", out, "-p", "x", "--max-tokens", 1)
    assert done.returncode == FILE and len(done.stderr.splitlines()) == 1
