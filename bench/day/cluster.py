"""A PostgreSQL server of the day's own, which may be killed and started again."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

OWNER = "postgres"  # the server refuses to run as root


def programs() -> Path | None:
    """Return the folder of the newest installed server, or None."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda each: int(each.parts[-3]))
    return found[-1].parent if found else None


class Cluster:
    """Started in a folder of its own on a unix socket, or at an address; `url` is for DATABASE_URL."""

    def __init__(self, address: str = "", port: int = 5432):
        self.address, self.port = address, port
        self._find(Path(tempfile.mkdtemp(prefix="hr-day-pg-", dir="/tmp")))
        if self.as_owner:
            shutil.chown(self.folder, OWNER, OWNER)
        self._run("initdb", "-D", str(self.data), "-U", "handrail", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8")
        if address:
            with (self.data / "pg_hba.conf").open("a") as file:
                file.write(f"host all all {address}/16 trust\n")
        self.start()
        self._run("createdb", "-h", str(self.folder), "-p", str(port), "-U", "handrail", "handrail")

    @classmethod
    def of_folder(cls, folder: Path):
        """Return the server that another process has started in this folder, to clean it up."""
        found = cls.__new__(cls)
        found._find(folder)
        return found

    def _find(self, folder: Path):
        self.folder, self.programs = folder, programs()
        if self.programs is None:
            raise RuntimeError("PostgreSQL's server is not installed")
        self.as_owner = ["runuser", "-u", OWNER, "--"] if os.geteuid() == 0 else []

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def url(self) -> str:
        host = self.address or str(self.folder).replace("/", "%2F")
        return f"postgres://handrail@{host}:{self.port}/handrail"

    def _run(self, program: str, *arguments: str):
        subprocess.run([*self.as_owner, str(self.programs / program), *arguments], check=True, capture_output=True)

    def start(self):
        options = f"-k {self.folder} -p {self.port} -c listen_addresses={self.address} -c max_connections=200"
        log = str(self.folder / "log")
        self._run("pg_ctl", "-D", str(self.data), "-w", "-t", "60", "-l", log, "-o", options, "start")

    def stop(self):
        self._run("pg_ctl", "-D", str(self.data), "-w", "-m", "fast", "stop")

    def kill(self):
        """Kill the server as a crash of its host would; its children end by themselves."""
        pid = int((self.data / "postmaster.pid").read_text().split()[0])
        os.kill(pid, 9)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            running = subprocess.run(["pgrep", "-f", str(self.data)], capture_output=True, check=False)
            if running.returncode:
                break
            time.sleep(0.1)

    def clean_up(self):
        with contextlib.suppress(subprocess.CalledProcessError, OSError):
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
