"""Container images without a registry: OCI archives of one layer, as `ctr images import` takes them.

An archive names its image twice, by tag and by digest, because a container runtime that imported only the tag looks for
`NAME@sha256:…` in a registry.
"""

import hashlib
import io
import json
import os
import platform
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.kubernetes import programs
from tests.support import CHECKOUT

PAUSE = "handrail.test/pause:1"
SMALL = "procps python3"  # packages that the tests need in it
OCI = "application/vnd.oci.image"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
CHUNK = 1 << 20


def write(out: Path, name: str, layer: Path, *, entrypoint: Sequence[str] = (), labels: Mapping[str, str] = {}) -> str:
    """Write the image `name` (REGISTRY/PATH:TAG) with the tar file `layer` as its only layer; return its digest.

    The same layer gives the same digest.
    """
    digest, size = _digest_of(layer), layer.stat().st_size
    started = {"Entrypoint": list(entrypoint)} if entrypoint else {"Cmd": ["/bin/sh"]}
    config = _json({
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Env": [f"PATH={PATH}"], "Labels": dict(labels), **started},
        "rootfs": {"type": "layers", "diff_ids": [digest]},
    })  # fmt: skip
    manifest = _json({
        "schemaVersion": 2,
        "mediaType": f"{OCI}.manifest.v1+json",
        "config": _described(config, f"{OCI}.config.v1+json"),
        "layers": [{"mediaType": f"{OCI}.layer.v1.tar", "digest": digest, "size": size}],
    })  # fmt: skip
    described = _described(manifest, f"{OCI}.manifest.v1+json")
    names = (name, f"{name.rpartition(':')[0]}@{described['digest']}")
    index = [described | {"annotations": {"io.containerd.image.name": each}} for each in names]
    with tarfile.open(out, "w") as archive:
        _put(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _put(archive, "index.json", _json({"schemaVersion": 2, "manifests": index}))
        for blob in (config, manifest):
            _put(archive, f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}", blob)
        entry = tarfile.TarInfo(f"blobs/{digest.replace(':', '/')}")
        entry.size = size
        with layer.open("rb") as content:
            archive.addfile(entry, content)
    return described["digest"]


def names_in(archive: Path) -> list[str]:
    """Return the names of the image in an archive: by tag and by digest."""
    with tarfile.open(archive) as opened:
        index = json.loads(opened.extractfile("index.json").read())
    return [each["annotations"]["io.containerd.image.name"] for each in index["manifests"]]


def pause() -> Path:
    """Return the archive of the image that holds a pod's namespaces, made once."""
    source = Path(__file__).with_name("pause.go")
    out = programs.cache() / f"pause-{hashlib.sha256(source.read_bytes()).hexdigest()[:8]}.tar"
    if not out.exists():
        with tempfile.TemporaryDirectory(dir=programs.cache()) as folder:
            made = Path(folder, "pause")
            command = ["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", made, source]
            subprocess.run(command, check=True, env=os.environ | {"CGO_ENABLED": "0"})
            with tarfile.open(Path(folder, "layer"), "w") as layer:
                _put(layer, "pause", made.read_bytes(), mode=0o755)
            write(Path(folder, "archive"), PAUSE, Path(folder, "layer"), entrypoint=["/pause"])
            Path(folder, "archive").rename(out)
    return out


def base(out: Path, packages: str | None = None) -> tuple[str, str]:
    """Write the image of an environment that names none, made of this machine's own packages; return (name, digest).

    `packages`: names with spaces in between, in place of those of deploy/images/root.sh.
    """
    suite = platform.freedesktop_os_release().get("VERSION_CODENAME", "unknown")
    name = f"docker.io/handrail/base:{suite}"
    environment = os.environ if packages is None else os.environ | {"PACKAGES": packages}
    with tempfile.TemporaryDirectory(dir=out.parent) as folder:
        layer = Path(folder, "root.tar")
        subprocess.run([CHECKOUT / "deploy/images/root.sh", layer], check=True, env=environment, stdout=2)
        return name, write(out, name, layer, labels={"handrail.image.suite": suite})


def _digest_of(file: Path) -> str:
    with file.open("rb") as content:
        return f"sha256:{hashlib.file_digest(content, 'sha256').hexdigest()}"


def _json(value) -> bytes:
    return json.dumps(value).encode()


def _described(blob: bytes, media_type: str) -> dict:
    return {"mediaType": media_type, "digest": f"sha256:{hashlib.sha256(blob).hexdigest()}", "size": len(blob)}


def _put(archive: tarfile.TarFile, path: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))
