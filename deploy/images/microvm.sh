#!/usr/bin/env bash
# Builds what the microvm driver boots: Debian's kernel, the few modules a guest needs, and a read-only root, with a
# manifest that names their digests. Takes packages from the machine's own apt sources. Needs root (the files of the root
# are its own), mmdebstrap, mke2fs, modprobe and busybox-static.
#
#   deploy/images/microvm.sh [FOLDER]             default: $HANDRAIL_HOME/images/microvm
#   FROM=IMAGE deploy/images/microvm.sh [FOLDER]  the root is that of an image of the Docker engine (HANDRAIL_DOCKER_HOST or
#                                                 DOCKER_HOST); it must have bash, e2fsck and Python with its library
set -euo pipefail
export PATH="$PATH:/usr/sbin:/sbin"
target=${1:-${HANDRAIL_HOME:-var}/images/microvm}
FROM=${FROM:-}
PACKAGES=python3,python3-venv,git,bash,ca-certificates,curl,e2fsprogs,procps,less,openssh-client,ripgrep
MODULES="virtio_mmio virtio_blk virtio_console virtio_rng overlay"

fail() { echo "microvm image: $*" >&2; exit 1; }

[ "$(id -u)" = 0 ] || fail "this needs root"
for tool in mmdebstrap mke2fs busybox modprobe dpkg-deb apt-get; do
    command -v "$tool" >/dev/null || fail "$tool is missing (Debian: apt-get install mmdebstrap e2fsprogs kmod busybox-static)"
done
if [ -n "$FROM" ]; then
    if [ -n "${HANDRAIL_DOCKER_HOST:-}" ]; then export DOCKER_HOST=$HANDRAIL_DOCKER_HOST; fi
    image=$(docker image inspect --format '{{.Id}}' "$FROM") || fail "the Docker engine has no image $FROM; nothing is ever fetched"
fi
scratch=$(mktemp -d "${TMPDIR:-/tmp}/handrail-image.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch"

# The kernel: unpacked, never installed on this machine.
meta=linux-image-cloud-$(dpkg --print-architecture)
kernel=$(apt-cache depends "$meta" | awk '/Depends: linux-image-[0-9]/ {print $2; exit}')
[ -n "$kernel" ] || fail "apt knows no $meta; run apt-get update"
mkdir "$scratch/debs" "$scratch/kernel" "$scratch/root" "$scratch/initrd"
(cd "$scratch/debs" && apt-get -qq -o APT::Sandbox::User=root download "$kernel")
dpkg-deb -x "$scratch"/debs/*.deb "$scratch/kernel"
release=$(basename "$scratch"/kernel/lib/modules/*)
depmod -b "$scratch/kernel" "$release"
mkdir -p "$scratch/initrd/modules" "$scratch/initrd/bin"
for module in $MODULES; do
    modprobe -d "$scratch/kernel" -S "$release" --show-depends "$module"
done | awk '$1 == "insmod" && !seen[$2]++ {print $2}' | while read -r path; do
    cp "$path" "$scratch/initrd/modules/"
    basename "$path"
done >"$scratch/initrd/modules/order"
cp "$(command -v busybox)" "$scratch/initrd/bin/busybox"

# The root: what agents find besides /workspace.
make_root() {
    release_name=$(. /etc/os-release && echo "$VERSION_CODENAME")
    mmdebstrap --quiet --variant=minbase --include="$PACKAGES" --format=directory \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
        --dpkgopt='path-exclude=/usr/share/doc/*' --aptopt='Apt::Install-Recommends "false"' \
        "$release_name" "$scratch/root"
    rm -rf "$scratch"/root/var/cache/apt/* "$scratch"/root/var/lib/apt/lists/* "$scratch"/root/var/log/*
    rm -f "$scratch"/root/etc/apt/sources.list "$scratch"/root/etc/apt/sources.list.d/*
    chroot "$scratch/root" /usr/bin/python3 -m compileall -q /usr/lib/python3.11 >/dev/null 2>&1 || true
}

take_root() {
    release_name=$FROM
    container=$(docker create --network none "$image" /bin/true)
    docker export "$container" | tar -x --numeric-owner -C "$scratch/root"
    docker rm "$container" >/dev/null
    rm -f "$scratch/root/.dockerenv"
    # Where Python's own images have it; the first program of a guest is found by this name.
    [ -e "$scratch/root/usr/bin/python3" ] || ln -s ../local/bin/python3 "$scratch/root/usr/bin/python3"
    for needed in /bin/bash /usr/sbin/e2fsck; do
        chroot "$scratch/root" /bin/sh -c "[ -x $needed ]" || fail "$FROM has no $needed (Debian: bash, e2fsprogs)"
    done
    modules=base64,ctypes,fcntl,json,selectors,subprocess,zipfile
    chroot "$scratch/root" /usr/bin/python3 -I -S -c "import sys, $modules; sys.exit(sys.version_info < (3, 9))" 2>/dev/null ||
        fail "$FROM has no Python of 3.9 or newer with its library (Debian: python3; python3-minimal is not enough)"
}

if [ -n "$FROM" ]; then take_root; else make_root; fi
rm -f "$scratch"/root/etc/machine-id "$scratch"/root/var/lib/dbus/machine-id "$scratch"/root/etc/resolv.conf
echo "# This workspace has no network of its own." >"$scratch/root/etc/resolv.conf"
mkdir -p "$scratch/root/workspace" "$scratch/root/home/agent"
SIZE_MB=${SIZE_MB:-$(($(du -sm "$scratch/root" | cut -f1) * 5 / 4 + 400))}

mkdir -p "$target"
fresh=$(mktemp -d "$target/.new.XXXXXX")
chmod 755 "$fresh"
mke2fs -q -t ext4 -O ^has_journal,^resize_inode -m 0 -E lazy_itable_init=0,discard -L root \
    -d "$scratch/root" "$fresh/root.ext4" "${SIZE_MB}M"
cp "$scratch"/kernel/boot/vmlinuz-* "$fresh/vmlinuz"
# The modules and busybox, as kernel and driver take them: the driver adds the agent, which changes more often.
(cd "$scratch/initrd" && find . -mindepth 1 | LC_ALL=C sort | busybox cpio -o -H newc 2>/dev/null) >"$fresh/base.cpio"
chmod 644 "$fresh"/*
digest() { sha256sum "$1" | cut -d' ' -f1; }
{
    printf '{\n "format": 1,\n "version": "%s",\n' "$(date -u +%Y%m%d.%H%M)"
    printf ' "release": "%s",\n "kernel": "%s",\n' "$release_name" "$release"
    if [ -n "$FROM" ]; then printf ' "docker_image": "%s",\n' "$image"; fi
    printf ' "vmlinuz_sha256": "%s",\n' "$(digest "$fresh/vmlinuz")"
    printf ' "base_sha256": "%s",\n' "$(digest "$fresh/base.cpio")"
    printf ' "root_sha256": "%s"\n}\n' "$(digest "$fresh/root.ext4")"
} >"$fresh/manifest.json"
chmod 644 "$fresh/manifest.json"
# In place at once, each under a name that its content gives: what runs keeps the files that it opened.
version=$(digest "$fresh/manifest.json" | cut -c1-16)
rm -rf "${target:?}/$version"
mv "$fresh" "$target/$version"
ln -sfn "$version" "$target/.current.new"
mv -T "$target/.current.new" "$target/current"
for old in "$target"/*/; do
    [ "$(basename "$old")" = "$version" ] || [ "$(basename "$old")" = current ] || rm -rf "$old"
done
echo "microvm image $version: kernel $release, root $(du -h "$target/$version/root.ext4" | cut -f1) in $target"
