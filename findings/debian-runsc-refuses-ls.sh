#!/usr/bin/env bash
# gVisor (runsc 0.0~20221219.0-2+b3) and coreutils (9.1) of Debian 12: `ls -l` and `stat` fail for every file.
#
# Behaviour: coreutils asks with statx and AT_NO_AUTOMOUNT, which Linux takes since 4.11 and which means nothing without
# an automounter. This runsc refuses the flag, so `ls -ld /` prints "cannot access '/': Invalid argument" and ends with 2.
# Python, which asks with newfstatat, sees the same folder. So programs run, and a person or an agent that lists a folder
# takes its files for broken. A gVisor of 2026 takes the flag.
#
# Output seen: "ls: 2, python: 0". Exits with 1 when that changes. Needs root, apt and python3.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 . # apt's own user writes nothing here, but looks
apt-get -qq download runsc=0.0~20221219.0-2+b3
dpkg -x runsc_*.deb .
inside() { # inside COMMAND...: run it in gVisor; print its exit status
    local status=0
    usr/bin/runsc --rootless=false --root="$work/state" --ignore-cgroups --network=none do "$@" >>said 2>&1 || status=$?
    echo "$status"
}
seen="ls: $(inside ls -ld /), python: $(inside python3 -c 'import os; os.stat("/")')"
cat said
echo "$seen"
[ "$seen" = "ls: 2, python: 0" ]
