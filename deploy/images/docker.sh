#!/bin/sh
# The base image of the docker driver, from the machine's own apt sources: handrail/base:SUITE.
#
#   deploy/images/docker.sh                       what `make images` runs
#   NAME=… PACKAGES=… deploy/images/docker.sh     another one; the tests make a small one in this way
#
# Nothing is fetched but packages, by mmdebstrap; the engine is that of HANDRAIL_DOCKER_HOST or DOCKER_HOST.
set -eu

VERSION=1 # of what follows; goes into a label
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
name=${NAME:-handrail/base:${suite:-unknown}}
packages=${PACKAGES-bash build-essential ca-certificates curl git less openssh-client procps python3 python3-pip python3-venv unzip xz-utils}

fail() { echo "$*" >&2; exit 1; }

command -v mmdebstrap >/dev/null || fail "Making the image of the docker driver needs mmdebstrap: apt-get install mmdebstrap"
command -v docker >/dev/null || fail "Making the image of the docker driver needs Docker's client: apt-get install docker.io"
[ -n "$suite" ] && [ -d /etc/apt ] || fail "The image is made of this machine's own apt sources; this is no Debian."
if [ -n "${HANDRAIL_DOCKER_HOST:-}" ]; then export DOCKER_HOST=$HANDRAIL_DOCKER_HOST; fi
docker version --format '{{.Server.Version}}' >/dev/null || fail "No Docker engine answers; name its socket in HANDRAIL_DOCKER_HOST."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 143' INT TERM

# The machine's sources, and how it fetches from them.
sources=$(find /etc/apt/sources.list /etc/apt/sources.list.d -name '*.list' -size +0 -o -name '*.sources' 2>/dev/null || true)
apt-config dump | grep '^Acquire::' | grep -v '^Acquire::Languages' >"$scratch/acquire.conf" || true
include=$(echo $packages | tr ' ' ,)

echo "Making $name: $suite with ${packages:-nothing more}"
# shellcheck disable=SC2086 - one argument for each file
mmdebstrap --quiet --variant=minbase ${include:+--include="$include"} \
    --aptopt="$scratch/acquire.conf" --aptopt='APT::Install-Recommends "false"' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --dpkgopt='path-exclude=/usr/share/info/*' \
    "$suite" "$scratch/root.tar" $sources
digest=$(sha256sum "$scratch/root.tar" | cut -d' ' -f1)
docker import \
    --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
    --change "LABEL handrail.image.version=$VERSION handrail.image.suite=$suite handrail.image.sha256=$digest" \
    --change 'CMD ["/bin/sh"]' \
    "$scratch/root.tar" "$name"
