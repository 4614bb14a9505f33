# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: where the built command, the library and the models are, and how to run the command.

ctest sets POSTERN_BIN and POSTERN_LIB (the built files), POSTERN_BUILD (the build folder), and `make test` besides
POSTERN_SMOLLM2 and POSTERN_GEMMA3 (model files). A test whose fixture finds nothing there is skipped.
"""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def file_from(variable):
    path = os.environ.get(variable)
    if not path:
        pytest.skip(f"{variable} is not set")
    assert os.path.exists(path), f"{variable} names {path}, which is not there"
    return Path(path)


@pytest.fixture(scope="session")
def postern_bin():
    return file_from("POSTERN_BIN")


@pytest.fixture(scope="session")
def postern_lib():
    return file_from("POSTERN_LIB")


@pytest.fixture(scope="session")
def build_dir():
    return file_from("POSTERN_BUILD")


@pytest.fixture(scope="session")
def smollm2():
    return file_from("POSTERN_SMOLLM2")


@pytest.fixture(scope="session")
def gemma3():
    return file_from("POSTERN_GEMMA3")


@pytest.fixture(scope="session")
def tiny_models():
    """The committed tiny random models, by name; every one of them has an architecture we run."""
    models = {path.stem: path for path in sorted((ROOT / "tests/golden/tiny").glob("*.gguf"))}
    assert models, "tests/golden/tiny holds no model"
    return models


@pytest.fixture
def postern(postern_bin, tmp_path):
    """Runs the command with the given arguments; its exit code and output are for the test to judge.

    Standard input is empty unless given, the cache and the home are folders of the test's own."""

    def run(*arguments, input="", timeout=120, env=None):
        return subprocess.run(
            [postern_bin, *map(str, arguments)],
            input=input,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=timeout,
            check=False,
            env={**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), **(env or {})},
        )

    return run
