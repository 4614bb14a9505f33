#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: setup.sh GROUP...
# Installs what scripts/packages.txt lists for the groups and this system lacks: as root, or with sudo. Where neither is
# to be had it prints the command to type and fails. Does nothing, without a network, when all is there.
set -eu
list=$(dirname "$0")/packages.txt

if ! command -v dpkg-query >/dev/null; then
    echo "setup: no Debian package system here; what is needed, see $list" >&2
    exit 0
fi

# installed_version PACKAGE: empty when it is not (wholly) installed
installed_version() {
    # The format is dpkg-query's, not the shell's.
    # shellcheck disable=SC2016
    dpkg-query -W -f '${db:Status-Status} ${Version}\n' "$1" 2>/dev/null | sed -n 's/^installed //p' | head -n 1
}

# is_new_enough PACKAGE MINIMUM
is_new_enough() {
    version=$(installed_version "$1")
    [ -n "$version" ] || return 1
    [ "$2" = - ] || dpkg --compare-versions "$version" ge "$2"
}

# wanted_packages GROUP...: lines of package and minimum version
wanted_packages() {
    for group in "$@"; do
        awk -v group="$group" '$1 == group { print $2, $3 }' "$list"
    done
}

# lacking GROUP...: names of the packages that are not there or too old
lacking() {
    wanted_packages "$@" | while read -r package minimum; do
        is_new_enough "$package" "$minimum" || echo "$package"
    done
}

missing=$(lacking "$@" | tr '\n' ' ')
[ -n "$missing" ] || exit 0

# A password may be asked for only where a person sees the question.
if [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo >/dev/null && { [ -t 2 ] || sudo -n true 2>/dev/null; }; then
    as_root=sudo
else
    echo "setup: these packages are missing; as root, type:" >&2
    echo "    apt-get update && apt-get install $missing" >&2
    exit 1
fi

echo "setup: installing $missing" >&2
apt() {
    # Empty as_root must vanish, and each package be its own word.
    # shellcheck disable=SC2086
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 "$@" </dev/null >&2
}
apt update || echo "setup: the package lists could not be renewed; trying with the old ones" >&2
# shellcheck disable=SC2086
apt install -y --no-install-recommends $missing

missing=$(lacking "$@" | tr '\n' ' ')
if [ -n "$missing" ]; then
    echo "setup: still missing, or too old on this system (see $list): $missing" >&2
    exit 1
fi
