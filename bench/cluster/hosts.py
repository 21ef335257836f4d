"""The hosts of a cluster: each a HANDRAIL_HOME with `make up`, the first made by hand, the others joined by a token."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from bench.cluster import network
from bench.cluster.network import Place
from bench.cluster.services import Balancer, Bucket, until
from bench.day import watch
from bench.day.cluster import Cluster as Database
from tests.support import CHECKOUT
from tests.support.leftovers import end_runs
from tests.support.product import free_port

NAMES = "abcdefgh"
PARTS = ("web,runner,queue", "web,runner", "runner,queue")  # of the first three; any more are as the third
STOPS_IN = 30.0  # seconds
OURS = ("HANDRAIL_", "DJANGO_", "AWS_", "DATABASE_URL")


class Host:
    """One host. `environment` is that of its processes."""

    def __init__(self, name: str, folder: Path, place: Place, parts: str, environment: dict[str, str]):
        self.name, self.place, self.parts = name, place, parts
        self.home, self.runtime, self.log = folder / f"home-{name}", folder / f"run-{name}", folder / f"log-{name}"
        self.process: subprocess.Popen | None = None
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith(OURS)}
        self.environment |= {
            "HANDRAIL_HOME": str(self.home),
            "HANDRAIL_RUNTIME": str(self.runtime),
            "HANDRAIL_HOST": place.address,
            "HANDRAIL_PORT": str(place.port),
            "HANDRAIL_PARTS": parts,
            "HANDRAIL_RUNNER_ADDRESS": f"{place.address}:{free_port()}",
        } | environment

    @property
    def has_web(self) -> bool:
        return "web" in self.parts

    def manage(self, *words: str) -> str:
        """Run `manage.py …` there; return what it prints. Raise RuntimeError with what it says if it fails."""
        command = [*self.place.before, sys.executable, "manage.py", *words]
        done = subprocess.run(
            command, cwd=CHECKOUT, env=self.environment, capture_output=True, text=True, timeout=300, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{self.name}: {' '.join(words)}: {done.stderr or done.stdout}")
        return done.stdout.strip()

    def start(self, *, wait: bool = True):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*self.place.before, sys.executable, "manage.py", "up"],
                cwd=CHECKOUT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if wait:
            until(self._is_up, f"{self.name} ({self.log})")

    def _is_up(self) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.name} has ended:\n{self.log.read_text()[-3000:]}")
        if not set(self.parts.split(",")) <= set(watch.parts_of(self.process.pid)):
            return False
        return not self.has_web or answers(f"http://{self.place.at}/healthz")

    def stop(self):
        """Stop it as an operator does; its workspaces stay up."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(STOPS_IN)

    def kill(self):
        """End all processes of the host at once, with its workspaces, as a cable to the mains does."""
        for pid in watch.below(self.process.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        end_runs(self.home, self.runtime)


class Cluster:
    """`hosts` by name, behind `url`. Raise RuntimeError if a part of it cannot be had on this machine.

    `environment` is added to that of each host.
    """

    def __init__(self, folder: Path, *, hosts: int = 3, kind: str = "", environment: dict[str, str] | None = None):
        self.folder, self.environment = folder, environment or {}
        self.network = network.network(kind)
        self.names = list(NAMES[:hosts])
        self.hosts: dict[str, Host] = {}
        self.database: Database | None = None
        self.bucket: Bucket | None = None
        self.balancer: Balancer | None = None

    @property
    def url(self) -> str:
        return f"http://{self.balancer.place.at}"

    @property
    def first(self) -> Host:
        return self.hosts[self.names[0]]

    def up(self, say=lambda words: None):
        self.folder.mkdir(parents=True, mode=0o700)
        self.folder.chmod(0o711)  # the database's own user passes through
        self.network.make(self.names)
        say("the network is there")
        at = self.network.place()
        self.database = Database(at.address, at.port)
        self.bucket = Bucket(self.folder / "bucket", self.network.place())
        self.bucket.start()
        say("PostgreSQL and the bucket answer")
        for number, name in enumerate(self.names):
            place = self.network.place(name)
            parts = PARTS[min(number, len(PARTS) - 1)]
            self.hosts[name] = Host(name, self.folder, place, parts, self.environment)
        self.balancer = Balancer(self.folder / "nginx", self.network.place())
        self.balancer.start([host.place for host in self.hosts.values() if host.has_web])
        self._start_first()
        say("the first host is up")
        for name in self.names[1:]:
            self._join(self.hosts[name])
            say(f"host-{name} has joined and is up")

    def _start_first(self):
        shared = self.bucket.environment | {"DATABASE_URL": self.database.url, "HANDRAIL_PUBLIC_URL": self.url}
        self.first.environment |= shared | {
            "HANDRAIL_HOST_NAME": f"host-{self.first.name}",
            "HANDRAIL_TRUSTED_PROXIES": "1",
        }
        self.first.start()

    def _join(self, host: Host):
        """Let the host join with the line that the first one prints, as it stands."""
        line = self.first.manage("host", "add", f"host-{host.name}").splitlines()[-1].split()
        if line[:3] != ["python", "manage.py", "join"]:
            raise RuntimeError(f"host add printed {line}")
        host.manage(*line[2:])
        host.start()

    def token(self, name: str, role: str = "lead") -> str:
        return self.first.manage("create_token", "--team", "main", "--user", name, "--role", role).splitlines()[-1]

    def agent_token(self, name: str) -> str:
        return self.first.manage("create_token", "--team", "main", "--agent", name).splitlines()[-1]

    def state(self) -> dict:
        """Return what `end` needs to end exactly this cluster, as JSON."""
        started = [host.process for host in self.hosts.values()]
        started += [part.process for part in (self.balancer, self.bucket) if part is not None]
        processes = [[each.pid, watch.start_of(each.pid)] for each in started if each and each.poll() is None]
        return self.network.state() | {
            "folder": str(self.folder),
            "processes": processes,
            "homes": [[str(host.home), str(host.runtime)] for host in self.hosts.values()],
            "bucket": self.bucket.process.pid if self.bucket and self.bucket.process else 0,
            "database": str(self.database.folder) if self.database else "",
        }

    def down(self):
        started = [host.process for host in self.hosts.values()]
        started += [part.process for part in (self.balancer, self.bucket) if part is not None]
        end(self.state())
        for process in filter(None, started):
            process.wait()


def answers(url: str) -> bool:
    try:
        return urllib.request.urlopen(url, timeout=5).status == 200
    except OSError:
        return False


def end(state: dict):
    """End the processes of a cluster, its workspaces, its network and its folder, by what its state says."""
    mine = [pid for pid, began in state["processes"] if _is_still(pid, began)]
    for pid in mine:
        os.kill(
            pid, signal.SIGKILL if pid == state["bucket"] else signal.SIGTERM
        )  # its orderly end takes half a minute
    for pid in mine:
        try:
            until(lambda pid=pid: _is_over(pid), f"process {pid}", STOPS_IN)
        except RuntimeError:
            os.kill(pid, signal.SIGKILL)
    for home, runtime in state["homes"]:
        end_runs(Path(home), Path(runtime))
    if state["database"]:
        Database.of_folder(Path(state["database"])).clean_up()
    network.remove(state)
    subprocess.run(["rm", "-rf", state["folder"]], check=False)


def _is_still(pid: int, began: int) -> bool:
    try:
        return watch.start_of(pid) == began
    except OSError:
        return False


def _is_over(pid: int) -> bool:
    try:
        done, _ = os.waitpid(pid, os.WNOHANG)  # a child of this process
        return done == pid
    except ChildProcessError:
        return not Path(f"/proc/{pid}").exists()


def save(state: dict, file: Path):
    file.write_text(json.dumps(state, indent=1))
