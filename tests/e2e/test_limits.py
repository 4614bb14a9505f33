# SPDX-License-Identifier: Apache-2.0
"""What containers do to a process: quotas of control groups, CPU affinity."""

import json
import os
import random
import re
import subprocess
from pathlib import Path

import pytest
from serving import Server


@pytest.fixture
def group(request):
    """A function that makes a v1 control group of this process's own under a controller; skipped where that may not be."""
    made = []

    def make(controller, settings):
        base = Path("/sys/fs/cgroup") / controller
        if not os.access(base / "cgroup.procs", os.W_OK):
            pytest.skip(f"no v1 {controller} control group to write to")
        folder = base / f"postern-test-{os.getpid()}"
        folder.mkdir()
        made.append(folder)
        for name, value in settings.items():
            (folder / name).write_text(str(value))
        return folder

    yield make
    for folder in made:
        folder.rmdir()


def run_in(folder, *command):
    script = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
    return subprocess.run(["sh", "-c", script, folder, *command], capture_output=True, text=True, timeout=120)


def threads_of(done):
    return int(re.search(r"(\d+) threads?,", done.stderr).group(1))


def test_affinity_bounds_the_threads(postern_bin, tiny_models):
    command = [postern_bin, "run", tiny_models["llama-gqa"], "-p", "a", "-n", "1", "-v"]
    first = min(os.sched_getaffinity(0))
    one = subprocess.run(
        command, capture_output=True, text=True, timeout=120, preexec_fn=lambda: os.sched_setaffinity(0, {first})
    )
    assert threads_of(one) == 1


def test_a_cpu_quota_is_rounded_down(postern_bin, tiny_models, group):
    folder = group("cpu", {"cpu.cfs_period_us": 100000, "cpu.cfs_quota_us": 190000})
    assert threads_of(run_in(folder, postern_bin, "run", tiny_models["llama-gqa"], "-p", "a", "-n", "1", "-v")) == 1


def test_a_plan_beyond_the_memory_limit_is_refused(postern_bin, smollm2, group):
    folder = group("memory", {"memory.limit_in_bytes": 160 << 20})
    command = [postern_bin, "run", smollm2, "-p", "a", "-n", "1"]
    large = run_in(folder, *command, "--ctx", "8192", "--kv-type", "f32")
    small = run_in(folder, *command, "--ctx", "512")
    any_size = run_in(folder, *command)
    assert large.returncode == 4 and "what would do: a context of" in large.stderr
    assert small.returncode == 0 and "budget" not in small.stderr
    assert any_size.returncode == 0 and "leaves a context of" in any_size.stderr


def test_sessions_that_grow_to_the_budget_stay_within_the_group(postern_bin, smollm2, group):
    """What is planned is what the group allows and 3 %: full contexts, longer than they hold, again and again."""
    budget = 170 << 20
    folder = group("memory", {"memory.limit_in_bytes": budget * 103 // 100})
    text = "The old clock on the wall had stopped at noon. " * 400
    done = run_in(folder, postern_bin, "run", smollm2, "-p", text, "--memory-budget", str(budget), "--overflow", "slide",
                  "--temp", "0", "-n", "1500", "--logit-bias", "0=-inf,2=-inf", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["usage"]["completion_tokens"] == 1500 and answer["cut"]["slides"] > 1
    assert answer["memory"]["peak_bytes"] <= budget


WORDS = "the old clock on wall had stopped at noon and nobody in town could say which day that was or why".split()


def test_requests_of_all_lengths_stay_within_the_group(postern_bin, smollm2, group, tmp_path):
    """Full sessions, prompts of a few to a thousand tokens, answers of one to sixteen: all are answered, the same ones
    alike, and no byte is missing for it. POSTERN_REQUESTS asks for more of them."""
    budget = 220 << 20
    folder = group("memory", {"memory.limit_in_bytes": budget * 103 // 100})
    inside = tmp_path / "inside"
    inside.write_text(f'#!/bin/sh\necho $$ > {folder}/cgroup.procs\nexec {postern_bin} "$@"\n', encoding="utf-8")
    inside.chmod(0o755)
    chance = random.Random(6)
    server = Server(inside, smollm2, "--memory-budget", budget, "--ctx", 1024, "--sessions", 4, "--overflow", "slide",
                    "--cache-dir", tmp_path / "kv", "--cache-dir-bytes", "50M", home=tmp_path)
    try:
        answers, sizes = {}, []
        for i in range(int(os.environ.get("POSTERN_REQUESTS", "90"))):
            kind = chance.randrange(8)
            length = 2 + kind * kind * 16
            begin = chance.randrange(3)
            text = " ".join(WORDS[(begin + j * j) % len(WORDS)] for j in range(length))
            done = server.chat(text, max_tokens=1 + 5 * (kind % 4), session=f"talk {i % 6}" if i % 2 else None)
            assert done.status == 200, done.body
            said = done.json["choices"][0]["message"]["content"]
            assert answers.setdefault((kind, begin), said) == said
            sizes.append(server.rss())
        assert server.metrics()["postern_memory_peak_bytes"] <= budget
        settled = len(sizes) * 2 // 3
        assert max(sizes[settled:]) < max(sizes[:settled]) + (8 << 20), sizes
        assert server.stop() == 0
    finally:
        server.kill()
