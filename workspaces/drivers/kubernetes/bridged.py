"""The bridge of a pod's Run on this host, and what the runner reaches over it: programs, files and ports."""

import asyncio
import json
import marshal
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from dashboard.files.atomic_write import replace_file
from dashboard.files.locks import take_lock
from workspaces.store.errors import StoreError

from ..base import DriverError, RunRecord
from ..init_client import InitClient, InitGone
from ..local import HERE as LAUNCHER
from ..local import LocalDriver, listen
from ..processes import start_time
from ..program_archive import archive, init_modules, write_program
from ..reaping import reap_in_background
from ..remote.tree import GuestTree
from ..sandbox.driver import find_python

HERE = Path(__file__).parent
PORTS = {"3128": "proxy", "80": "internal"}
FOLDERS = ("tree", "home")
FETCH_S = 60.0


class Bridged(LocalDriver):
    """The part of the driver that starts bridges and goes over them; `driver.py` knows the cluster."""

    def _bridge(self, run_id: str, folder: Path, config: dict, init_args: list[str]) -> dict:
        """Return what launch.py starts: the bridge with the descriptors that it needs."""
        write_program(folder / "bridge", bridge_program())
        (folder / "state").write_text("{}".ljust(200))
        ports = self._ports(run_id)
        ports.mkdir(mode=0o711, exist_ok=True)
        ports.chmod(0o711)
        fds = {name: os.open(folder / name, flags | os.O_CLOEXEC) for name, flags in (
            ("bridge", os.O_RDONLY), ("oom", os.O_WRONLY), ("state", os.O_WRONLY))}  # fmt: skip
        fds["ports"] = os.open(ports, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        trees = {name: listen(self._socket(run_id, name)).detach() for name in FOLDERS}
        whole = config | {"trees": trees} | {name: fds[name] for name in ("ports", "oom", "state")}
        config_fd = os.memfd_create("config", os.MFD_CLOEXEC)
        os.write(config_fd, marshal.dumps(whole, 2))
        os.lseek(config_fd, 0, os.SEEK_SET)
        program, prefix = find_python()
        stage = {"python": str(prefix)} if prefix is not None and os.getuid() == 0 else {}
        if stage:
            program = program.replace(str(prefix), "/tmp/python", 1)
        first = [program, "-I", "-S", f"/proc/self/fd/{fds['bridge']}"]
        keep = [*fds.values(), *trees.values(), config_fd]
        return {"argv": [*first, *init_args, str(config_fd)], "env": {}, "cwd": "/", "stage": stage, "keep": keep}

    def _answers(self, record: RunRecord) -> bool:
        try:
            with InitClient(record.address.socket, timeout_s=3.0):
                return True
        except InitGone:
            return False

    def _revive(self, record: RunRecord) -> None:
        """Start a new bridge to the pod of a Run whose own is gone."""
        folder = self._folder(record.run_id)
        config = json.loads((folder / "config").read_text())
        lock = take_lock(folder / "lock", wait=2.0)
        with listen(Path(record.address.socket)) as listener:
            keep = [listener.fileno(), lock]
            command = self._bridge(record.run_id, folder, config, [str(fd) for fd in keep])
            keep += command["keep"]
            told = {"cgroups": [], "uid": record.uid, "gid": record.uid, "groups": []} | command | {"keep": keep}
            with open(folder / "log", "ab") as log:
                launcher = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(LAUNCHER / "launch.py")],
                    stdin=subprocess.PIPE, stdout=log, stderr=log, pass_fds=keep, start_new_session=True, env={},
                    cwd="/",
                )  # fmt: skip
            for fd in command["keep"]:
                os.close(fd)
            os.close(lock)
            launcher.stdin.write(marshal.dumps(told))
            launcher.stdin.close()
        reap_in_background(launcher)
        self._write(replace(record, pid=launcher.pid, start_time=start_time(launcher.pid)))
        deadline = time.monotonic() + FETCH_S
        while time.monotonic() < deadline:
            if self._answers(record):
                return
            if launcher.poll() is not None or self._is_lost(record):
                break
            time.sleep(0.1)
        raise DriverError("The workspace's pod can't be reached.")

    def _is_lost(self, record: RunRecord) -> bool:
        """Return whether the pod is gone with its files."""
        raise NotImplementedError

    # Files

    def tree(self, record: RunRecord, *, cache: Path | None = None) -> GuestTree:
        return self._tree_of(record, "tree", cache)

    def _tree_of(self, record: RunRecord, name: str, cache: Path | None = None) -> GuestTree:
        label = record.workspace_id if name == "tree" else f"{record.workspace_id}-{name}"
        port = self._socket(record.run_id, name)
        return GuestTree(port, record.address.socket, name=label, cache=cache, folder=name)

    def _folders(self, record: RunRecord) -> list[tuple[str, Path]]:
        return [("tree", Path(record.tree)), ("home", Path(self._known(record.run_id)["home"]))]

    def _known_folders(self, record: RunRecord) -> list[tuple[str, Path]]:
        return self._folders(record) if self._known(record.run_id) else []

    def tree_at_rest(self, folder: Path, *, cache: Path | None = None, home: Path | None = None) -> None:
        return None

    def file_owner(self, uid: int | None) -> None:
        return None  # files of a pod belong to its own user

    def tcp_tables(self, record: RunRecord) -> list[str]:
        try:
            with self.tree(record).files() as found:
                return found.sockets()
        except (DriverError, StoreError, OSError):
            return []  # the pod is ending or gone

    # The network

    async def listeners(self, record: RunRecord) -> list[socket.socket]:
        return await asyncio.to_thread(self._listeners, record)

    async def dial(self, record: RunRecord, port: int) -> socket.socket:
        return await asyncio.to_thread(self._dial, record, port)

    def _listeners(self, record: RunRecord) -> list[socket.socket]:
        made = []
        for name in PORTS.values():
            path = self._ports(record.run_id) / name
            made.append(listen(path))
            if os.getuid() == 0:
                os.chown(path, record.uid, record.uid)
        return made

    def _dial(self, record: RunRecord, port: int) -> socket.socket:
        try:
            with InitClient(record.address.socket) as init:
                return init.dial(port)
        except DriverError as error:  # nothing listens there, or the pod is ending
            raise ConnectionRefusedError(str(error)) from error

    # What is written down

    def _socket(self, run_id: str, name: str) -> Path:
        return self.runtime / f"{run_id}.{name}"

    def _ports(self, run_id: str) -> Path:
        return self.runtime / f"{run_id}.ports"

    def _write_config(self, folder: Path, config: dict) -> None:
        """Write down what each bridge of the Run needs: the pod's address, keys, certificates and the lead."""
        replace_file(folder / "config", json.dumps(config).encode())

    def _known(self, run_id: str) -> dict:
        return _json(self._folder(run_id) / "pod.json")

    def _state(self, run_id: str) -> dict:
        return _json(self._folder(run_id) / "state")


def _json(path: Path) -> dict:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


@lru_cache(maxsize=1)
def bridge_program() -> bytes:
    remote = HERE.parent / "remote"
    modules = {
        "__main__.py": HERE / "bridge.py",
        "base_bridge.py": remote / "base_bridge.py",
        "mux.py": remote / "mux.py",
        "link.py": HERE / "pod" / "link.py",
    }
    return archive(modules | init_modules())
