"""A PostgreSQL server of a test's own, which it can stop and start."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.support.product import free_port
from tests.support.waiting import until


def programs() -> Path | None:
    """Return the folder of the newest PostgreSQL's programs on this host, if there is one."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


class Server:
    """One server on a port of loopback, with an empty database `handrail`."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="handrail-pg-"))
        self.port, self._process = free_port(), None
        self.url = f"postgres://handrail@127.0.0.1:{self.port}/handrail"
        self._user = {}
        if os.geteuid() == 0:  # it refuses to run as root
            self._user = {"user": "postgres", "group": "postgres", "extra_groups": []}
            shutil.chown(self.folder, "postgres", "postgres")
        self._run("initdb", "-U", "handrail", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
        self.start()
        subprocess.run(
            [programs() / "createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "handrail", "handrail"],
            check=True,
        )

    def _run(self, program: str, *options: str):
        command = [programs() / program, "-D", self.folder / "data", *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/", **self._user)

    def start(self):
        """Start it, and return once it takes connections."""
        command = [programs() / "postgres", "-D", self.folder / "data", "-p", str(self.port), "-c", "fsync=off"]
        command += ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", **self._user)
        asked = [programs() / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        until(lambda: subprocess.run(asked).returncode == 0)

    def stop(self):
        """Stop it as an operator does: it ends each connection and rolls back what had not committed."""
        self._process.send_signal(2)
        self._process.wait(30)

    def clean_up(self):
        if self._process and self._process.poll() is None:
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
