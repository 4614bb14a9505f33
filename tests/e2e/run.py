# SPDX-License-Identifier: Apache-2.0
"""usage: run.py TEST.py

Runs one file of pytest tests for ctest. Exit code 77 means skipped: pytest is not there, or no test of the file had what
it needs.
"""

import sys

SKIPPED = 77


class Outcome:
    """Counts the tests that really ran."""

    n_ran = 0

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and not report.skipped:
            self.n_ran += 1


def main(path):
    try:
        import pytest
    except ImportError:
        print("skipped: pytest is not installed for", sys.executable)
        return SKIPPED
    outcome = Outcome()
    status = pytest.main(["-q", "-rs", "-p", "no:cacheprovider", path], plugins=[outcome])
    nothing_ran = status == pytest.ExitCode.OK and outcome.n_ran == 0
    return SKIPPED if nothing_ran or status == pytest.ExitCode.NO_TESTS_COLLECTED else int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
