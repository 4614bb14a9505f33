#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: format.sh [--fix]
# Checks that every C file is as clang-format wants it, or makes it so. Versions of clang-format differ in what they
# want; another major version than ours checks nothing and exits with 77 (skipped).
set -eu
cd "$(dirname "$0")/.."
major=14

for tool in "clang-format-$major" clang-format; do
    if "$tool" --version 2>/dev/null | grep -q "version $major\."; then
        files=$(find include src server cli examples tests -name '*.[ch]')
        if [ "${1-}" = --fix ]; then
            # No file name here holds a space.
            # shellcheck disable=SC2086
            exec "$tool" -i $files
        fi
        # shellcheck disable=SC2086
        exec "$tool" --dry-run --Werror $files
    fi
done
echo "skipped: clang-format $major is not installed" >&2
exit 77
