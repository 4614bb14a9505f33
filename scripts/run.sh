#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: run.sh [ARGUMENT...]
# Runs `postern run` for `make run`. On a terminal the chat gets a process group of its own: Ctrl-C then stops the answer
# that is being written, and does not kill the make that waits for the chat. Ctrl-Z is off, since make would not stop too.
set -eu
if [ -t 0 ]; then
    set -m
    trap '' TSTP
fi
"$(dirname "$0")/../build/release/postern" run "$@"
