"""The bridge of a pod's Run on this host, and what the runner reaches over it: programs, files and ports."""

import json
import marshal
import os
import subprocess
import sys
import time
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from dashboard.files.locks import take_lock
from workspaces.store.errors import StoreError

from ..base import DriverError, RunRecord
from ..local import HERE as LAUNCHER
from ..local import listen
from ..processes import start_time
from ..reaping import reap_in_background
from ..remote.bridging import Bridging, bridge_archive, read_json
from ..remote.tree import GuestTree

HERE = Path(__file__).parent
FOLDERS = ("tree", "home")
FETCH_S = 60.0


class Bridged(Bridging):
    """The part of the driver that starts bridges and goes over them; `driver.py` knows the cluster."""

    def _bridge(self, run_id: str, folder: Path, config: dict, init_args: list[str]) -> dict:
        """Return what launch.py starts: the bridge with the descriptors that it needs."""
        trees = {name: listen(self._socket(run_id, name)).detach() for name in FOLDERS}
        whole = {**config, "trees": trees}
        found = self._launch_bridge(run_id, folder, whole, init_args, bridge_program(), ("oom",))
        return {**found, "keep": [*found["keep"], *trees.values()]}

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

    # What is written down

    def _socket(self, run_id: str, name: str) -> Path:
        return self.runtime / f"{run_id}.{name}"

    def _known(self, run_id: str) -> dict:
        return read_json(self._folder(run_id) / "pod.json")


@lru_cache(maxsize=1)
def bridge_program() -> bytes:
    return bridge_archive(HERE / "bridge.py")
