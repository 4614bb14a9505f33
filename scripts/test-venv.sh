#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: test-venv.sh
# Makes build/venv, the Python environment of the end-to-end tests, from requirements-test.txt; does nothing when it is
# there and neither the list nor the Python has changed since.
set -eu
cd "$(dirname "$0")/.."
exec </dev/null >&2
venv=build/venv
made_from=$(python3 --version && pwd && cat requirements-test.txt) # a moved environment does not work

if [ "$made_from" = "$(cat $venv/made-from 2>/dev/null)" ]; then
    exit 0
fi
rm -rf $venv
python3 -m venv $venv
$venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    -r requirements-test.txt
echo "$made_from" >$venv/made-from
