#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: build.sh PRESET [TARGET...]
# Configures a preset of CMakePresets.json into build/PRESET and builds the targets (default: all).
# PN_WERROR=ON in the environment makes warnings errors, in this build folder from then on.
# All output goes to standard error, so that `make run` leaves standard output to the command.
set -eu
cd "$(dirname "$0")/.."
preset=$1
shift
exec </dev/null >&2
: "${CMAKE_BUILD_PARALLEL_LEVEL:=$(nproc)}"
export CMAKE_BUILD_PARALLEL_LEVEL
unset MAKEFLAGS MFLAGS MAKELEVEL # of the make that called us; the build has its own number of jobs

cmake --preset "$preset" --log-level=WARNING ${PN_WERROR:+"-DPN_WERROR=$PN_WERROR"}
if [ $# -gt 0 ]; then
    cmake --build --preset "$preset" --target "$@"
else
    cmake --build --preset "$preset"
fi
