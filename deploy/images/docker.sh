#!/bin/sh
# The base image of the docker driver, from the machine's own apt sources: handrail/base:SUITE.
#
#   deploy/images/docker.sh                       what `make images` runs
#   NAME=… PACKAGES=… deploy/images/docker.sh     another one; the tests make a small one in this way
#
# Nothing is fetched but packages (root.sh); the engine is that of HANDRAIL_DOCKER_HOST or DOCKER_HOST.
set -eu

VERSION=1 # of what follows; goes into a label
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
name=${NAME:-handrail/base:${suite:-unknown}}

fail() { echo "$*" >&2; exit 1; }

command -v docker >/dev/null || fail "Making the image of the docker driver needs Docker's client: apt-get install docker.io"
if [ -n "${HANDRAIL_DOCKER_HOST:-}" ]; then export DOCKER_HOST=$HANDRAIL_DOCKER_HOST; fi
docker version --format '{{.Server.Version}}' >/dev/null || fail "No Docker engine answers; name its socket in HANDRAIL_DOCKER_HOST."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 143' INT TERM

echo "Making $name"
"$(dirname "$0")/root.sh" "$scratch/root.tar"
digest=$(sha256sum "$scratch/root.tar" | cut -d' ' -f1)
docker import \
    --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
    --change "LABEL handrail.image.version=$VERSION handrail.image.suite=$suite handrail.image.sha256=$digest" \
    --change 'CMD ["/bin/sh"]' \
    "$scratch/root.tar" "$name"
