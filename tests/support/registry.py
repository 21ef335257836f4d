"""A registry of images on this host's loopback, with one image whose layer holds the host's static busybox."""

import gzip
import hashlib
import io
import json
import platform
import shutil
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
OF_DOCKER = "application/vnd.docker."
MANIFEST = f"{OF_DOCKER}distribution.manifest.v2+json"


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class Registry:
    """Serves the distribution API for what `image` made; `asked` lists the paths that were requested."""

    def __init__(self):
        self.blobs: dict[str, bytes] = {}
        self.tags: dict[str, str] = {}  # {tag: digest of its manifest}
        self.asked: list[str] = []
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                registry.asked.append(self.path)
                name = self.path.rpartition("/")[2]
                name = registry.tags.get(name, name)
                content = b"{}" if self.path == "/v2/" else registry.blobs.get(name)
                self.send_response(404 if content is None else 200)
                kind = MANIFEST if "/manifests/" in self.path else "application/octet-stream"
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content or b"")))
                self.send_header("Docker-Content-Digest", name)
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(content or b"")

            do_HEAD = do_GET

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server.server_address[1]}"

    def keep(self, content: bytes) -> str:
        self.blobs[digest_of(content)] = content
        return digest_of(content)

    def image(self, marker: str) -> str:
        """Make an image with busybox and the file /marker; return its reference by digest."""
        layer = _layer(marker)
        packed = gzip.compress(layer, mtime=0)
        config = {
            "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Env": ["PATH=/bin"], "Cmd": ["/bin/sh"]},
            "rootfs": {"type": "layers", "diff_ids": [digest_of(layer)]},
        }
        described = json.dumps(config).encode()
        parts = [("container.image.v1+json", described), ("image.rootfs.diff.tar.gzip", packed)]
        told = [{"mediaType": OF_DOCKER + kind, "size": len(part), "digest": self.keep(part)} for kind, part in parts]
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": told[0], "layers": told[1:]}
        return f"{self.host}/test/pinned@{self.keep(json.dumps(manifest).encode())}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def _layer(marker: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(shutil.which("busybox"), "bin/busybox")
        entry = tarfile.TarInfo("bin/sh")
        entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
        archive.addfile(entry)
        entry = tarfile.TarInfo("marker")
        entry.size = len(marker)
        archive.addfile(entry, io.BytesIO(marker.encode()))
    return packed.getvalue()
