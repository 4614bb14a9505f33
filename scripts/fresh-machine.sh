#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: fresh-machine.sh FOLDER [RELEASE]
# Tries what the README promises on a machine that has nothing: makes a minimal Debian (default: this system's release) in
# FOLDER, which must not exist yet, clones the committed tree into it, and runs `make run` and `make test` there. Needs
# root and debootstrap. Takes over the package mirror of apt and the configuration of pip; keeps FOLDER for looking at.
set -eu
if [ $# -lt 1 ] || [ -e "$1" ] || [ "$(id -u)" != 0 ]; then
    echo "usage (as root): $0 FOLDER-TO-MAKE [RELEASE]" >&2
    exit 2
fi
# In name spaces of its own the mounts and processes end with this script, however it ends.
if [ -z "${PN_FRESH_MACHINE-}" ]; then
    PN_FRESH_MACHINE=1 exec unshare --mount --pid --fork --kill-child "$0" "$@"
fi

repository=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
host_release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
release=${2-$host_release}
# The format is apt's, not the shell's.
# shellcheck disable=SC2016
mirror=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
    awk -v release="$host_release" '$1 == release { print $2; exit }')
if [ -z "$mirror" ]; then
    echo "$0: apt knows no mirror of $host_release" >&2
    exit 1
fi

mkdir -p "$1"
root=$(cd "$1" && pwd)
home=$root/root

# copy FILE...: to the same places in the new machine, those that exist
copy() {
    for file in "$@"; do
        if [ -e "$file" ]; then
            mkdir -p "$root$(dirname "$file")"
            cp -r "$file" "$root$(dirname "$file")/"
        fi
    done
}

# inside COMMAND...: runs it in the new machine; of the environment only what tells pip and apt the way out
inside() {
    for name in $(env | sed -n 's/^\(PIP_[A-Z_]*\)=.*/\1/p; s/^\([a-zA-Z]*_[pP][rR][oO][xX][yY]\)=.*/\1/p'); do
        eval "value=\$$name"
        # shellcheck disable=SC2154
        set -- "$name=$value" "$@"
    done
    chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 CI=true "$@" </dev/null
}

# step NAME COMMAND...: runs it inside and says how long it took
step() {
    echo "fresh machine: $1" >&2
    started=$(date +%s)
    shift
    inside "$@"
    echo "fresh machine: done in $(($(date +%s) - started)) s" >&2
}

debootstrap --variant=minbase "$release" "$root" "$mirror" >&2
copy /etc/resolv.conf /etc/hosts /etc/pip.conf /usr/local/share/ca-certificates
# Hooks may want programs that are not there.
# shellcheck disable=SC2046
copy $(grep -L Invoke /etc/apt/apt.conf.d/*)
for file in .config/pip .pip; do
    if [ -e "${HOME-/root}/$file" ]; then
        mkdir -p "$home/$(dirname "$file")"
        cp -r "${HOME-/root}/$file" "$home/$file"
    fi
done
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mkdir -p "$root/srv"
git clone --quiet --no-hardlinks "$repository" "$root/srv/postern"

step "make, which the README asks for" sh -c 'apt-get -q update && apt-get -q install -y --no-install-recommends make'
step "make run" make -C /srv/postern run ARGS='-p "Say hello" -n 50'
step "make test" make -C /srv/postern test
