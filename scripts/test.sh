#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: test.sh
# Everything that has to pass: the checks of the source tree, unit tests, fuzz corpora and end-to-end tests in a release
# build, then unit tests, fuzz corpora and the server under AddressSanitizer and UndefinedBehaviorSanitizer, then unit tests as a
# 64-bit ARM machine. The last line is "N passed, N failed, N skipped" over all builds.
set -eu
cd "$(dirname "$0")/.."
exec </dev/null

scripts/setup.sh build test
scripts/test-venv.sh
POSTERN_SMOLLM2=$(scripts/fetch-models.py smollm2)
POSTERN_GEMMA3=$(scripts/fetch-models.py gemma3)
export POSTERN_SMOLLM2 POSTERN_GEMMA3

# run_tests PRESET: builds and tests; a failing test is counted at the end, a failing build ends the run
run_tests() {
    PN_WERROR=ON scripts/build.sh "$1"
    rm -f "build/$1/results.xml"
    ctest --preset "$1" --parallel "$(nproc)" --output-junit "$PWD/build/$1/results.xml" || true
}

run_tests release
run_tests asan
scripts/arm-test.sh
exec python3 scripts/sum-results.py build/release/results.xml build/asan/results.xml build/arm64/results-*.xml
