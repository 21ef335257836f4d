"""A driver whose Runs have a keeper: it starts bridges on this host, and goes over them to programs and ports.

RUNTIME/RUN_ID.ports/    sockets for the programs' connections to 127.0.0.1:3128 and :80
HOME/runs/RUN_ID/state   what the bridge sees of the keeper: {up, at, terminating}
HOME/runs/RUN_ID/config  what each bridge of the Run needs
"""

import asyncio
import json
import marshal
import os
import shutil
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from dashboard.files.atomic_write import replace_file

from ..base import DriverError, RunRecord
from ..init_client import InitClient, InitGone
from ..local import LocalDriver, listen
from ..program_archive import archive, init_modules, write_program
from ..sandbox.driver import find_python

HERE = Path(__file__).parent
PORTS = {"3128": "proxy", "80": "internal"}


class Bridging(LocalDriver):
    """The part of a driver that does not know what starts and ends the keeper."""

    def _launch_bridge(
        self, run_id: str, folder: Path, config: Mapping, init_args: list[str], program: bytes, files: Sequence[str]
    ) -> dict:
        """Return what launch.py starts: the bridge `program`, with descriptors of these `files` of the Run's folder.

        Descriptors that `config` names beside them are added to `keep` by the caller.
        """
        write_program(folder / "bridge", program)
        (folder / "state").write_text("{}".ljust(200))
        ports = self._ports(run_id)
        ports.mkdir(mode=0o711, exist_ok=True)
        ports.chmod(0o711)
        fds = {name: os.open(folder / name, os.O_WRONLY | os.O_CLOEXEC) for name in ("state", *files)}
        fds["ports"] = os.open(ports, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        bridge = os.open(folder / "bridge", os.O_RDONLY | os.O_CLOEXEC)
        config_fd = os.memfd_create("config", os.MFD_CLOEXEC)
        os.write(config_fd, marshal.dumps({**config, **fds}, 2))
        os.lseek(config_fd, 0, os.SEEK_SET)
        program_path, prefix = find_python()
        stage = {"python": str(prefix)} if prefix is not None and os.getuid() == 0 else {}
        if stage:
            program_path = program_path.replace(str(prefix), "/tmp/python", 1)
        argv = [program_path, "-I", "-S", f"/proc/self/fd/{bridge}", *init_args, str(config_fd)]
        return {"argv": argv, "env": {}, "cwd": "/", "stage": stage, "keep": [*fds.values(), bridge, config_fd]}

    def _answers(self, record: RunRecord) -> bool:
        try:
            with InitClient(record.address.socket, timeout_s=3.0):
                return True
        except InitGone:
            return False

    def _forget(self, record: RunRecord) -> None:
        shutil.rmtree(self._ports(record.run_id), ignore_errors=True)
        super()._forget(record)

    # The network

    async def listeners(self, record: RunRecord) -> list[socket.socket] | None:
        return await asyncio.to_thread(self._listeners, record)

    async def dial(self, record: RunRecord, port: int) -> socket.socket | None:
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
        except DriverError as error:  # nothing listens there, or the Run is ending
            raise ConnectionRefusedError(str(error)) from error

    # What is written down

    def _ports(self, run_id: str) -> Path:
        return self.runtime / f"{run_id}.ports"

    def _write_config(self, folder: Path, config: dict) -> None:
        """Write down what each bridge of the Run needs: where the keeper is, keys, and the lead."""
        replace_file(folder / "config", json.dumps(config).encode())

    def _state(self, run_id: str) -> dict:
        return read_json(self._folder(run_id) / "state")


def read_json(path: Path) -> dict:
    """Return the object in a file; {} if there is none that can be read."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def bridge_archive(main: Path) -> bytes:
    """Return the program of a bridge, of which a driver has the module `main`."""
    modules = {f"{name}.py": HERE / f"{name}.py" for name in ("base_bridge", "linked_bridge", "link", "mux")}
    return archive({"__main__.py": main} | modules | init_modules())
