#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: arm-test.sh
# Builds for 64-bit ARM into build/arm64 and runs the unit tests of what differs there under qemu: as a CPU that has all
# we use, and as one that has NEON alone. The libraries come from the mirrors that apt knows and are unpacked into
# build/arm64/sysroot; nothing is installed. Results go to build/arm64/results-*.xml for scripts/sum-results.py; where
# tools or libraries are not to be had they say so.
set -eu
cd "$(dirname "$0")/.."
exec </dev/null
folder=$PWD/build/arm64
sysroot=$folder/sysroot
mkdir -p "$folder"
rm -f "$folder"/results-*.xml

# skip REASON
skip() {
    echo "skipped: arm64, $1" >&2
    echo "<testsuite><testcase name=\"arm64, $1\" status=\"disabled\"/></testsuite>" >"$folder/results-none.xml"
    exit 0
}

# arm_apt ARGUMENT...: apt-get for an ARM system of this one's release that has nothing installed
arm_apt() {
    apt-get -q -y -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User= \
        -o Dir::State="$folder/apt" -o Dir::State::status=/dev/null -o Dir::Cache="$folder/apt" "$@" >&2
}

# make_sysroot LIBRARY...
make_sysroot() {
    rm -rf "$sysroot" "$folder/apt"
    mkdir -p "$sysroot" "$folder/apt/lists/partial" "$folder/apt/archives/partial"
    if ! { arm_apt update && arm_apt install --no-install-recommends --download-only "$@"; }; then
        skip "the mirrors that apt knows do not have its libraries"
    fi
    for package in "$folder"/apt/archives/*.deb; do
        dpkg-deb -x "$package" "$sysroot"
    done
    # Where /lib is a link, packages leave it to the system to make it.
    [ -e "$sysroot/lib" ] || ln -s usr/lib "$sysroot/lib"
    rm -rf "$folder/apt"
}

# run_tests CPU REGEX: leaves out what takes long and is the same on every machine
run_tests() {
    QEMU_CPU=$1 ctest --preset arm64 --tests-regex "$2" --exclude-regex 'real_models|template_hostile' \
        --parallel "$(nproc)" --output-junit "$folder/results-$1.xml" || true
}

[ "$(uname -m)" != aarch64 ] || skip "the usual tests run on it"
scripts/setup.sh arm || true
for tool in aarch64-linux-gnu-gcc qemu-aarch64 apt-get dpkg-deb; do
    command -v "$tool" >/dev/null || skip "$tool is not installed"
done
libraries=$(awk '$1 == "build" && $2 ~ /-dev$/ { print $2 }' scripts/packages.txt)
if [ "$(cat "$sysroot/made-of" 2>/dev/null)" != "$libraries" ]; then
    # Each name is a word of its own.
    # shellcheck disable=SC2086
    make_sysroot $libraries
    echo "$libraries" >"$sysroot/made-of"
fi
PN_WERROR=ON scripts/build.sh arm64
run_tests max '^unit[.]'
run_tests cortex-a53 '^unit[.]kernels'
