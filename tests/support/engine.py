"""A Docker engine of a test's own, which it may stop and kill; and images made of what this machine has."""

import io
import json
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path

from docker import APIClient

BUSYBOX = "handrail/test:busybox"


def lacks() -> str:
    """Why no engine can be started here; "" when one can."""
    if os.geteuid() != 0:
        return "only root can start an engine"
    missing = [name for name in ("dockerd", "busybox") if shutil.which(name) is None]
    return f"{' and '.join(missing)} cannot be found" if missing else ""


class Engine:
    """`runtimes`: {name: program} of further OCI runtimes, as an operator registers them in daemon.json."""

    def __init__(self, runtimes=()):
        # A socket's path has 107 bytes, and containerd makes longer ones below ours.
        self.folder = Path(tempfile.mkdtemp(prefix="dkr-", dir="/tmp"))
        self.address = f"unix://{self.folder}/s"
        self.process: subprocess.Popen | None = None
        registered = {name: {"path": str(program)} for name, program in dict(runtimes).items()}
        (self.folder / "daemon.json").write_text(json.dumps({"runtimes": registered}))

    def start(self):
        command = ["dockerd", "--data-root", self.folder / "data", "--exec-root", self.folder / "exec"]
        command += ["--config-file", self.folder / "daemon.json", "-H", self.address, "-p", self.folder / "pid"]
        command += ["--iptables=false", "--bridge=none"]
        # It takes the pids in these for living ones, also when one is a zombie that nobody reaps, or somebody else.
        for pid_file in (self.folder / "pid", *self.folder.glob("exec/containerd/*.pid")):
            pid_file.unlink(missing_ok=True)
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [*command, "--storage-driver", "overlay2"], stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
            if self._answers():
                return
            time.sleep(0.1)
        raise AssertionError((self.folder / "log").read_text()[-2000:])

    def _answers(self) -> bool:
        """By hand: the SDK leaves its socket open when nobody answers."""
        with socket.socket(socket.AF_UNIX) as trial:
            trial.settimeout(2)
            try:
                trial.connect(str(self.folder / "s"))
                trial.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
                return b" 200 OK" in trial.recv(4096)
            except OSError:
                return False

    def client(self):
        return Client(self.address)

    def stop(self, number=signal.SIGTERM):
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(60)
            self.process = None
            (self.folder / "s").unlink(missing_ok=True)

    def clean_up(self):
        try:
            if self.process is None:
                self.start()
            with self.client() as client:
                for found in client.containers(all=True):
                    client.remove_container(found["Id"], force=True)
            self.stop()
        finally:
            mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
            for place in sorted((place for place in mounted if place.startswith(f"{self.folder}/")), reverse=True):
                subprocess.run(["umount", "-l", place], check=False)  # left by an engine that was killed
            shutil.rmtree(self.folder, ignore_errors=True)


class Client(APIClient):
    """The SDK's client, closed after use."""

    def __init__(self, address: str):
        super().__init__(base_url=address, version="1.41", timeout=60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def busybox_layer(files=None) -> bytes:
    """The files of an image as a tar archive: Debian's static busybox and these, no Python, no bash, no /etc."""
    program = Path(shutil.which("busybox")).read_bytes()
    applets = subprocess.run(["busybox", "--list"], capture_output=True, text=True, check=True).stdout.split()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        member = tarfile.TarInfo("bin/busybox")
        member.size, member.mode = len(program), 0o755
        archive.addfile(member, io.BytesIO(program))
        for applet in applets:
            if applet != "busybox":
                link = tarfile.TarInfo(f"bin/{applet}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                archive.addfile(link)
        for path, content in (files or {}).items():
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(content), 0o755
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def make_busybox(address: str, env=(), files=None, name=BUSYBOX) -> str:
    """An image with nothing in it but `busybox_layer`."""
    with Client(address) as client:
        repository, tag = name.split(":")
        client.import_image_from_data(busybox_layer(files), repository=repository, tag=tag, changes=[*env])
    return name
