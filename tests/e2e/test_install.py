# SPDX-License-Identifier: Apache-2.0
"""What `cmake --install` lays down is enough for a program of someone else's: header, library, pkg-config file."""

import os
import shutil
import subprocess

import pytest
from conftest import ROOT


def run(*command, **options):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300, check=False, **options)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def the_one(paths):
    found = list(paths)
    assert len(found) == 1, found
    return found[0]


@pytest.fixture(scope="module")
def prefix(build_dir, tmp_path_factory):
    """An installed tree, moved once, so that nothing in it can lean on where it was installed."""
    installed = tmp_path_factory.mktemp("install") / "first"
    run("cmake", "--install", build_dir, "--prefix", installed)
    return installed.rename(installed.with_name("moved here"))


@pytest.fixture(scope="module")
def library_folder(prefix):
    return the_one(prefix.rglob("libpostern.so")).parent


@pytest.fixture(scope="module")
def environment(library_folder):
    return {**os.environ, "PKG_CONFIG_PATH": str(library_folder / "pkgconfig"), "LD_LIBRARY_PATH": str(library_folder)}


@pytest.fixture(scope="module")
def chat_program(environment, tmp_path_factory):
    """examples/chat.c, built as its first comment says."""
    program = tmp_path_factory.mktemp("example") / "chat"
    # Only eval honours the quoting with which pkg-config keeps the space of our prefix.
    build = 'eval "cc -std=c11 -Wall -Wextra -Werror \\"\\$1\\" $(pkg-config --cflags --libs postern jansson) -o \\"\\$2\\""'
    run("sh", "-c", build, "sh", ROOT / "examples/chat.c", program, env=environment)
    return program


def test_installed_files(prefix, library_folder):
    wanted = ["bin/postern", "include/postern.h", "share/man/man1/postern.1", "share/doc/postern/README.md"]
    wanted += ["share/bash-completion/completions/postern", "share/doc/postern/LICENSE"]
    for name in wanted:
        path = prefix / name
        assert path.is_file() and path.stat().st_size > 0, name
    headers = [path.name for path in (prefix / "include").iterdir()]
    assert headers == ["postern.h"]
    assert (library_folder / "libpostern.so").is_symlink()
    assert (library_folder / "libpostern.so.0").exists()


def test_installed_command_finds_its_library(prefix):
    environment = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
    version = run(prefix / "bin/postern", "--version", env=environment)
    header = (prefix / "include/postern.h").read_text()
    assert version.split()[1] in header


def test_pkg_config(environment):
    flags = run("pkg-config", "--cflags", "--libs", "postern", env=environment)
    version = run("pkg-config", "--modversion", "postern", env=environment).strip()
    assert f'#define PN_VERSION_STRING "{version}"' in (ROOT / "include/postern.h").read_text()
    assert "-lpostern" in flags
    assert "pcre2" not in flags and "jansson" not in flags  # what only the library needs


def test_header_stands_alone(prefix, tmp_path):
    """Every compiler takes it: strict C11, and C++ where there is one."""
    source = tmp_path / "include_only.c"
    source.write_text("#include <postern.h>\nint main(void) { return PN_OK; }\n")
    include = f"-I{prefix}/include"
    run("cc", "-std=c11", "-pedantic-errors", "-Wall", "-Wextra", "-Werror", include, "-fsyntax-only", source)
    if shutil.which("c++"):
        run("c++", "-std=c++11", "-Wall", "-Wextra", "-Werror", include, "-fsyntax-only", "-x", "c++", source)


def test_example_program(environment, chat_program, tiny_models):
    for name in ("llama-gqa", "gemma3-window"):
        out = run(chat_program, tiny_models[name], env=environment, input="Hello\n")
        assert out.startswith("> ") and out.endswith("\n> ")  # the answer of a random model may be empty


def test_completion_offers_the_commands(prefix):
    script = prefix / "share/bash-completion/completions/postern"
    complete = 'source "$1"; COMP_WORDS=("$2" ru); COMP_CWORD=1; _postern; printf "%s\\n" "${COMPREPLY[@]}"'
    assert run("bash", "-c", complete, "bash", script, prefix / "bin/postern").split() == ["run"]


def test_man_page_is_well_formed(prefix):
    page = prefix / "share/man/man1/postern.1"
    first = next(line for line in page.read_text().splitlines() if not line.startswith('.\\"'))
    assert first.startswith((".TH POSTERN 1", ".Dd")), first
    if shutil.which("mandoc"):
        run("mandoc", "-T", "lint", "-W", "error", page)
