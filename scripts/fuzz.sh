#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: fuzz.sh TARGET|all SECONDS
# Fuzzes tests/fuzz/fuzz_TARGET.c with libFuzzer, ASan and UBSan for so long. Starts from the committed corpus; what it
# finds on the way is kept in build/fuzz/found/TARGET, a crashing input in build/fuzz/crashes/TARGET.
set -eu
cd "$(dirname "$0")/.."
if [ $# -ne 2 ]; then
    echo "usage: $0 TARGET|all SECONDS" >&2
    exit 2
fi
targets=$1
if [ "$targets" = all ]; then
    targets=$(find tests/fuzz -name 'fuzz_*.c' | sed 's|.*/fuzz_||; s|\.c$||' | sort)
fi

scripts/setup.sh build fuzz
for target in $targets; do
    scripts/build.sh fuzz "fuzz_$target"
    found=build/fuzz/found/$target
    crashes=build/fuzz/crashes/$target
    mkdir -p "$found" "$crashes"
    echo "fuzzing $target for $2 s" >&2
    "build/fuzz/tests/fuzz_$target" -max_total_time="$2" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="$crashes/" "$found" "tests/fuzz/corpus/$target"
done
