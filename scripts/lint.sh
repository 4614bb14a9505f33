#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: lint.sh
# Runs the analysers that are installed (scripts/setup.sh lint): clang-tidy with the checks of .clang-tidy, cppcheck
# and shellcheck. Exit code 1 when one of them has something to say.
set -eu
cd "$(dirname "$0")/.."
status=0

# have TOOL: says so when it is skipped
have() {
    command -v "$1" >/dev/null || { echo "skipped: $1 is not installed" && return 1; }
}

cmake --preset release --log-level=WARNING -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >/dev/null
sources=$(find src cli examples -name '*.c')
if have clang-tidy; then
    # No file name here holds a space.
    # shellcheck disable=SC2086
    clang-tidy --quiet -p build/release $sources || status=1
fi
if have cppcheck; then
    # shellcheck disable=SC2086
    cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
        -D_GNU_SOURCE -Iinclude -Isrc $sources || status=1
fi
if have shellcheck; then
    shellcheck scripts/*.sh .ci/run || status=1
fi
exit $status
