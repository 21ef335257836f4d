"""Runs in gVisor: containers whose kernel hands no descriptor to the host's, so that a keeper is their first process.

The folders of the Run are mounted as with any other runtime, and their files are read on this host. Programs, terminals
and ports are reached over a bridge, whose connections are programs that the engine starts in the container (`execs.py`,
`inside/relay.py`). Files beside those of bridging.py:

HOME/runs/RUN_ID/container.json  its container: {id, pid, start_time}, the last two of gVisor's process on this host
HOME/runs/RUN_ID/once/           keeper.json: what the keeper reads and the bridge then removes: {run, key}
"""

import json
import os
import secrets
import socket
import subprocess
import sys
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from dashboard.files.atomic_write import replace_file

from .. import cgroups
from ..base import Address, DriverError, Limits, RunRecord, RunSpec
from ..init_client import InitClient
from ..local import lead_of
from ..processes import boot_id, start_time
from ..reaping import reap_in_background
from ..remote.bridging import PORTS, Bridging, bridge_archive, read_json
from . import bundle, container
from .engine import Engine, runs, why_init_failed
from .images import Images

HERE = Path(__file__).parent
STARTS_S = 60.0  # gVisor interprets each system call: its first seconds are slower than a container's


class Kept(Bridging):
    """The part of the driver for Runs in gVisor; `driver.py` creates and removes the containers of all."""

    engine: Engine
    images: Images
    start_s, hello_s = STARTS_S, 2.0

    def _is_kept(self, record: RunRecord) -> bool:
        return (self._folder(record.run_id) / "container.json").exists()

    def _container(self, run_id: str) -> dict:
        return read_json(self._folder(run_id) / "container.json")

    # Starting

    def _address(self, spec: RunSpec) -> Address:
        return Address(socket="", env=container.environment(spec, self.images.find(spec.image)))

    def _image(self, spec: RunSpec) -> str:
        return self.images.find(spec.image)["Id"]

    def _host_limits(self, spec: RunSpec) -> Limits:
        return Limits(pids=None)  # the bridge's own: the container has the Run's

    def _limits_in_force(self, spec: RunSpec, by_cgroups: frozenset) -> frozenset:
        with self.engine.talk() as client:
            return container.limits_in_force(client.info(), spec) - {"pids"}

    def _command(self, spec: RunSpec, folder: Path, init_args: list[str]) -> dict:
        """Start the container, and return what launch.py starts: the bridge to its keeper."""
        key = secrets.token_hex(32)
        (folder / "container.json").write_text("{}")  # before there is one: who ends the Run knows what it is
        once = folder / "once"
        once.mkdir(mode=0o700, exist_ok=True)
        (once / "keeper.json").write_text(json.dumps({"run": spec.run_id, "key": key}))
        if os.getuid() == 0:
            os.chown(once, spec.uid, -1)  # the bridge removes the file
            os.chown(once / "keeper.json", container.first_uid(spec), -1)
        known = self._start_container(spec, folder, once)
        config = {
            "run": spec.run_id,
            "lead": list(lead_of(spec)),
            "shown": {"key": key},
            "pids": None,
            "names": PORTS,
        }
        return self._with_execs(spec.run_id, folder, known["id"], config, init_args)

    def _with_execs(self, run_id: str, folder: Path, made: str, config: dict, init_args: list[str]) -> dict:
        """Start the program that opens connections for the bridge, and return what launch.py starts."""
        ours, theirs = socket.socketpair()
        life, held = os.pipe2(os.O_CLOEXEC)
        command = [*bundle.command(container.AT, "keeper.pyz"), "relay"]
        engine = self.engine.address.removeprefix("unix://")
        arguments = [str(theirs.fileno()), str(held), engine, made, *command]
        with theirs, open(folder / "log", "ab") as log:
            execs = subprocess.Popen(
                [sys.executable, "-I", "-S", HERE / "execs.py", *arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[theirs.fileno(), held],
                start_new_session=True, env={}, cwd="/",
            )  # fmt: skip
        os.close(held)
        reap_in_background(execs)
        once = os.open(folder / "once", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        config = config | {"execs": ours.fileno(), "life": life, "once": once}
        found = self._launch_bridge(run_id, folder, config, init_args, bridge_program(), ())
        return found | {"keep": [*found["keep"], ours.detach(), life, once]}

    def _start_container(self, spec: RunSpec, folder: Path, once: Path) -> dict:
        """Create and start the container; return what is written down of it."""
        shown = folder / "etc"
        container.write_files(shown, spec)
        image = self.images.find(spec.image)
        with self.engine.talk() as client:
            self.engine.remove(client, spec.run_id)  # left by an interrupted start
            made = self._create(client, spec, image, shown, once)
            self._start_created(client, made, spec)
            state = client.inspect_container(made)["State"]
        known = {"id": made, "pid": state["Pid"], "start_time": start_time(state["Pid"]) if state["Pid"] else None}
        replace_file(folder / "container.json", json.dumps(known).encode())
        return known

    def _await_init(self, record: RunRecord, launcher, spec: RunSpec, **how) -> RunRecord:
        hello = self._hello(record, lambda: launcher.poll() is None)
        if hello is None:
            raise DriverError(self._why_not_up(record))
        pid = self._container(record.run_id).get("pid")
        env = {**record.address.env, "SHELL": hello["shell"]}
        where = {"shell": hello["shell"], "env": env, "oom_file": cgroups.oom_file_of(pid) if pid else None}
        record = replace(record, address=replace(record.address, **where))
        self._write(record)
        return record

    def _why_not_up(self, record: RunRecord) -> str:
        """Return a sentence on why the keeper did not answer."""
        with self.engine.talk() as client:
            found = self.engine.find(client, record.run_id)
            if found is not None and not runs(found):
                return why_init_failed(client, found["Id"])
        log = (self._folder(record.run_id) / "log").read_text(errors="replace")
        return self._explain(log)

    # Life and end

    def _lives_kept(self, record: RunRecord) -> bool:
        """Return whether the Run lives; end a container whose bridge is gone, since nobody can reach its keeper."""
        if super()._alive(record):
            return True
        if record.boot_id != boot_id():
            return False
        with self.engine.talk() as client:
            found = self.engine.find(client, record.run_id)
            if found is not None and runs(found):
                self.engine.kill(client, found)
        return False

    def _kill_without_engine(self, record: RunRecord) -> bool:
        """Kill gVisor's process on this host, with which its programs end; return whether it was known."""
        known = self._container(record.run_id)
        pid = known.get("pid")
        if not pid or os.getuid() != 0 or start_time(pid) != known["start_time"]:
            return False
        os.kill(pid, 9)
        return True

    def _tables_of_kept(self, record: RunRecord) -> list[str]:
        try:
            with InitClient(record.address.socket) as init:
                return init.request("tcp_tables")["tables"]
        except DriverError:
            return []  # it is ending or gone


@lru_cache(maxsize=1)
def bridge_program() -> bytes:
    return bridge_archive(HERE / "bridge.py")
