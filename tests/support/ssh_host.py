"""A host of repositories over ssh on this machine: a real sshd of its own, with its own host key and deploy keys."""

import getpass
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")


class SshHost:
    """Serves the repositories of this user's files on a free port of loopback, to those who have `key`."""

    def __init__(self, folder: Path):
        folder.mkdir(mode=0o700)
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # sshd of root wants it; the package's service would have made it
        self.folder = folder
        self.key, self.host_key = _keygen(folder / "deploy"), _keygen(folder / "host")
        (folder / "authorized").write_text((folder / "deploy.pub").read_text())
        self.host_line = (folder / "host.pub").read_text().rsplit(" ", 1)[0]
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.origin = f"ssh://127.0.0.1:{self.port}"
        self.log = folder / "log"
        self.process = subprocess.Popen(
            [SSHD, "-D", "-f", self._config(), "-E", str(self.log)], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._wait()

    def address(self, repository: Path) -> str:
        return f"ssh://{getpass.getuser()}@127.0.0.1:{self.port}{repository}"

    def close(self):
        self.process.terminate()
        self.process.wait(10)

    def _config(self) -> str:
        config = self.folder / "config"
        config.write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.folder}/host\nPidFile none\nUsePAM no\n"
            f"AuthorizedKeysFile {self.folder}/authorized\nPasswordAuthentication no\n"
            "KbdInteractiveAuthentication no\nStrictModes no\nPermitRootLogin prohibit-password\n"
        )
        return str(config)

    def _wait(self):
        for _ in range(200):
            try:
                return socket.create_connection(("127.0.0.1", self.port)).close()
            except OSError:
                assert self.process.poll() is None, self.log.read_text()
                time.sleep(0.05)
        raise AssertionError("sshd did not come up")


def _keygen(file: Path) -> str:
    """Write a key pair; return the private key."""
    make_key(file)
    return file.read_text()


def make_key(file: Path, *, kind="ed25519", passphrase="", more=()):
    command = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "test", "-f", str(file), *more]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
