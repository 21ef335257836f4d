#!/bin/sh
# The files of a base image, as a tar archive made of the machine's own apt sources.
#
#   PACKAGES=… deploy/images/root.sh OUT.tar        PACKAGES: others than these
#
# Nothing is fetched but packages, by mmdebstrap.
set -eu

packages=${PACKAGES-bash build-essential ca-certificates curl git less openssh-client procps python3 python3-pip python3-venv unzip xz-utils}
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")

fail() { echo "$*" >&2; exit 1; }

command -v mmdebstrap >/dev/null || fail "Making a base image needs mmdebstrap: apt-get install mmdebstrap"
[ -n "$suite" ] && [ -d /etc/apt ] || fail "The image is made of this machine's own apt sources; this is no Debian."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 143' INT TERM

# The machine's sources, and how it fetches from them.
sources=$(find /etc/apt/sources.list /etc/apt/sources.list.d -name '*.list' -size +0 -o -name '*.sources' 2>/dev/null || true)
apt-config dump | grep '^Acquire::' | grep -v '^Acquire::Languages' >"$scratch/acquire.conf" || true
include=$(echo $packages | tr ' ' ,)

echo "Making the files of an image: $suite with ${packages:-nothing more}"
# shellcheck disable=SC2086 - one argument for each file
mmdebstrap --quiet --variant=minbase ${include:+--include="$include"} \
    --aptopt="$scratch/acquire.conf" --aptopt='APT::Install-Recommends "false"' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --dpkgopt='path-exclude=/usr/share/info/*' \
    "$suite" "$1" $sources
