#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: sum-results.py RESULTS.xml...

Adds up what ctest --output-junit wrote, names what did not pass, and prints "N passed, N failed, N skipped" as the last
line. Exit code 1 when anything failed or nothing passed.
"""

import sys
import xml.etree.ElementTree as ElementTree


def outcome(case):
    """ctest calls a test "notrun" both when it asked to be skipped and when its program is missing."""
    status = case.get("status")
    if status == "run":
        return "passed"
    skipped = case.find("skipped")
    asked = skipped is not None and skipped.get("message", "").startswith("SKIP_")
    return "skipped" if status == "disabled" or (status == "notrun" and asked) else "failed"


def main(paths):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for path in paths:
        try:
            cases = list(ElementTree.parse(path).iter("testcase"))
        except (OSError, ElementTree.ParseError) as error:
            print(f"failed: no results in {path}: {error}")
            counts["failed"] += 1
            continue
        for case in cases:
            result = outcome(case)
            counts[result] += 1
            if result != "passed":
                print(f"{result}: {case.get('name')} ({path})")
    print(", ".join(f"{n} {result}" for result, n in counts.items()))
    return 0 if counts["failed"] == 0 and counts["passed"] > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
