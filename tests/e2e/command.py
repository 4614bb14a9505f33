# SPDX-License-Identifier: Apache-2.0
"""What tests of the command share: its exit codes and what they expect of a run."""

import json

USAGE, FILE, LIMIT = 2, 3, 4


def output(done):
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_fails(done, code, *fragments):
    """The exit code, nothing on standard output, and one line that names the matter."""
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("postern: "), done.stderr
    for fragment in fragments:
        assert fragment in lines[0]


def run_json(postern, *arguments, **options):
    return json.loads(output(postern("run", *arguments, "--json", **options)))
