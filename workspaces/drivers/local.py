"""The common base of all drivers on this host: a Run is our `init`, its record, its lock and its socket.

HOME/runs/RUN_ID/record.json  the RunRecord, replaced atomically
HOME/runs/RUN_ID/lock         locked by the init as long as it lives: the only proof of life
HOME/runs/RUN_ID/log          output of the launcher and the init
HOME/runs/RUN_ID/snapshots/N  where snapshot N is mounted, if the Run shows it; unmounted once nobody has the lock
HOME/leads/WORKSPACE_ID       the highest epoch of a lead under which something of the workspace was started here
RUNTIME/RUN_ID                the init's socket
"""

import asyncio
import contextlib
import marshal
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from dashboard.files.atomic_write import replace_file
from dashboard.files.locks import is_locked, take_lock
from workspaces.store.mount.unmounting import unmount

from . import cgroups, lead_epochs, manifest
from .base import (
    Address,
    Driver,
    DriverError,
    EndReason,
    Limits,
    Process,
    RunRecord,
    RunSpec,
)
from .init_client import InitClient, InitGone, InitRefused, short_address
from .processes import boot_id, start_time, this_host
from .reaping import reap_in_background

HERE = Path(__file__).parent
START_S = 20.0
SNAPSHOTS = "snapshots"  # in the folder of a Run: the places at which the snapshots that it shows are mounted


class LocalDriver(Driver):
    """Run workloads of this host under our init; a subclass defines in `_command` how the init is started."""

    start_s: ClassVar[float] = START_S  # time limit for a start, until the init answers
    hello_s: ClassVar[float] = 0.5  # time limit for one attempt; longer where an init answers slowly, to avoid retries

    # Hooks for subclasses. The keyword arguments of `_start` (`**how`) are passed on to `_command` and `_launched`.

    def _command(self, spec: RunSpec, folder: Path, init_args: list[str], **how) -> dict:
        """Return `{argv, env, cwd, stage, keep}` for launch.py; `keep` lists the open descriptors to be inherited.

        `init_args` are the init's own arguments: the numbers of its listening socket and of its lock.
        """
        raise NotImplementedError

    def _address(self, spec: RunSpec) -> Address:
        raise NotImplementedError

    def _host_limits(self, spec: RunSpec) -> Limits:
        """Return the limits for the control groups on this host."""
        return spec.limits

    def _limits_in_force(self, spec: RunSpec, by_cgroups: frozenset[str]) -> frozenset[str]:
        return by_cgroups

    def _image(self, spec: RunSpec) -> str | None:
        """Return the root's image for the Run's record, by version and digest."""
        return spec.image

    def _began(self, **how) -> str:
        """Return the id of the Run whose programs continue in this one, or ""."""
        return ""

    def _launched(self, record: RunRecord, spec: RunSpec, **how) -> None:
        """Prepare what a driver needs between the launch and the init's hello."""

    def _explain(self, log: str) -> str:
        """Return a sentence for a failed start, given the output."""
        last = (log.strip().splitlines() or ["it said nothing"])[-1]
        return f"The workspace's init process did not start: {last[:300]}"

    def _why(self, record: RunRecord) -> EndReason:
        """Return why a Run ended that was not stopped by request."""
        if cgroups.oom_kills(record.address.oom_file):
            return EndReason.OUT_OF_MEMORY
        return EndReason.CRASHED

    def _extra_grace_s(self, record: RunRecord) -> float:
        """Return how many seconds the init may take to exit after its programs have ended."""
        return 3.0

    # Verbs

    async def start(self, spec: RunSpec) -> RunRecord:
        return await asyncio.to_thread(self._start, spec)

    async def records(self) -> Sequence[RunRecord]:
        return await asyncio.to_thread(self._records) if self._has_folders() else []

    async def alive(self, record: RunRecord) -> bool:
        return self.lives(record) or await asyncio.to_thread(self._alive, record)  # which may ask an engine or a guest

    async def end_reason(self, record: RunRecord) -> EndReason:
        if record.boot_id != boot_id():
            return EndReason.HOST_RESTARTED
        recorded = await asyncio.to_thread(self._read, record.run_id) or record
        return EndReason.STOPPED if recorded.stopping else await asyncio.to_thread(self._why, record)

    async def freeze(self, record: RunRecord) -> None:
        if not self.capabilities.freeze:
            raise DriverError("Programs in this kind of workspace cannot be frozen.")
        await self._ask(record, "freeze", timeout_s=15.0)

    async def thaw(self, record: RunRecord) -> None:
        await self._ask(record, "thaw")

    async def frozen(self, record: RunRecord) -> bool:
        return await asyncio.to_thread(self._frozen, record)

    async def processes(self, record: RunRecord, *, open_files: bool = False) -> Sequence[Process]:
        answer = await self._ask(record, "processes", open=open_files)
        tree = record.address.cwd
        return [_process(entry, tree) for entry in answer["processes"]]

    async def tasks(self, record: RunRecord) -> int:
        return (await self._ask(record, "tasks"))["tasks"]

    async def stop(self, record: RunRecord, *, grace_s: float = 5.0) -> None:
        await asyncio.to_thread(self._stop, record, grace_s)

    async def clear(self, record: RunRecord) -> None:
        await asyncio.to_thread(self._clear, record)

    def show_manifest(self, run_id: str, content: bytes) -> None:
        manifest.replace(self._folder(run_id) / "etc", content)

    # Implementation

    def _folder(self, run_id: str) -> Path:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", run_id):
            raise DriverError(f"{run_id!r} cannot be the name of a Run.")
        return self.home / "runs" / run_id

    def _start(self, spec: RunSpec, **how) -> RunRecord:
        """Start the Run under its lock, or join a start that is under way."""
        self._check(spec)
        folder = self._folder(spec.run_id)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            lock = take_lock(folder / "lock", wait=0.2)  # `is_locked` elsewhere holds it only for a moment
        except BlockingIOError:
            return self._join(spec.run_id)
        try:
            if (known := self._read(spec.run_id)) is not None and known.pid is not None:
                raise DriverError("This Run has ended; it cannot be started again.")
            return self._launch(spec, folder, lock, **how)
        except BaseException:
            if self._read(spec.run_id) is None:  # nothing was started, and no record leads to the folder
                shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            os.close(lock)

    def _check(self, spec: RunSpec) -> None:
        """Raise DriverError for a spec that must not be started; subclasses add their own checks."""
        if spec.uid == 0:
            raise DriverError("A workload never runs as root: the Run needs a user of its own.")
        if os.getuid() not in (0, spec.uid):
            raise DriverError("Only root can run a workspace as another user.")
        if not spec.workspace.is_dir():
            raise DriverError(f"The workspace's folder {spec.workspace} does not exist.")
        lead_epochs.take(self.home, spec.workspace_id, spec.lead)

    def _launch(self, spec: RunSpec, folder: Path, lock: int, **how) -> RunRecord:
        """Write the record, start the launcher, then tell it what to exec once the record has its pid."""
        groups, in_force, oom_file = cgroups.create(spec.run_id, self._host_limits(spec))
        address = self._address(spec)
        where = {"socket": str(self.runtime / spec.run_id), "oom_file": address.oom_file or oom_file}
        address = replace(address, **where, lead=lead_of(spec))
        record = RunRecord(
            driver=self.name,
            run_id=spec.run_id,
            workspace_id=spec.workspace_id,
            host=this_host(),
            boot_id=boot_id(),
            uid=spec.uid,
            address=address,
            tree=str(spec.workspace),
            cgroups=tuple(groups),
            limits=self._limits_in_force(spec, in_force),
            phase=spec.phase,
            image=self._image(spec),
            began=self._began(**how),
            home=str(self.home),
        )
        self._write(record)
        with listen(Path(address.socket)) as listener:
            keep = [listener.fileno(), lock]
            command = self._command(spec, folder, [str(fd) for fd in keep], **how)
            keep += command["keep"]
            launcher = _spawn_launcher(folder / "log", keep)
            for fd in command["keep"]:
                os.close(fd)
        record = replace(record, pid=launcher.pid, start_time=start_time(launcher.pid))
        self._write(record)
        launch = {"cgroups": groups, "uid": spec.uid, "gid": spec.uid, "groups": []} | command | {"keep": keep}
        with contextlib.suppress(BrokenPipeError):
            launcher.stdin.write(marshal.dumps(launch))
            launcher.stdin.close()
        return self._await_init(record, launcher, spec, **how)

    def _await_init(self, record: RunRecord, launcher: subprocess.Popen, spec: RunSpec, **how) -> RunRecord:
        """Wait for the init and return the completed record; on failure kill the Run and delete its record."""
        try:
            self._launched(record, spec, **how)
        except DriverError:
            self._kill(record)
            self._forget(record)
            raise
        if self._hello(record, lambda: launcher.poll() is None) is None:
            self._kill(record)
            log = (self._folder(record.run_id) / "log").read_text(errors="replace")
            self._forget(record)
            raise DriverError(self._explain(log))
        pid = self._init_pid(record)
        record = replace(record, pid=pid, start_time=start_time(pid))
        self._write(record)
        return record

    def _hello(self, record: RunRecord, may_come: Callable[[], bool]) -> dict | None:
        """Return the init's hello; None if it does not come in time, or `may_come()` turns false."""
        deadline = time.monotonic() + self.start_s
        while time.monotonic() < deadline:
            try:
                # The socket listens before the init exists, so a connection proves nothing; wait for the hello.
                with InitClient(record.address.socket, timeout_s=self.hello_s) as init:
                    return init.hello
            except InitGone:
                if not may_come():
                    return None
                time.sleep(0.005)
        return None

    def _join(self, run_id: str) -> RunRecord:
        """Wait for a Run that another call is starting or has started, and return its record."""
        deadline = time.monotonic() + self.start_s
        while time.monotonic() < deadline:
            record = self._read(run_id)
            if record is not None and record.pid is not None:
                with contextlib.suppress(InitGone), InitClient(record.address.socket, timeout_s=1.0):
                    return record
            time.sleep(0.05)
        raise DriverError("The Run is being started by somebody else and does not answer.")

    def _init_pid(self, record: RunRecord) -> int:
        """Return the init's pid on this host; by default the launcher's, which execs the init."""
        return record.pid

    def _has_folders(self) -> bool:
        """Return whether any Run has a folder here."""
        try:
            with os.scandir(self.home / "runs") as entries:
                return next(entries, None) is not None
        except FileNotFoundError:
            return False

    def _records(self) -> list[RunRecord]:
        runs = self.home / "runs"
        names = sorted(os.listdir(runs)) if runs.is_dir() else []
        found = [self._read(name) for name in names]
        return [record for record in found if record is not None and record.driver == self.name]

    def _read(self, run_id: str) -> RunRecord | None:
        """Return the record of a Run; None if there is none, or if our home is a copy and the Run is the original's."""
        try:
            record = RunRecord.from_json((self._folder(run_id) / "record.json").read_text())
        except FileNotFoundError:
            return None
        # If the home was moved while its Runs were up, their locks are still held; the locks in a copy are free.
        is_ours = record.home == str(self.home) or is_locked(self._folder(run_id) / "lock")
        return record if is_ours else None

    def _write(self, record: RunRecord) -> None:
        replace_file(self._folder(record.run_id) / "record.json", record.to_json().encode())

    def _alive(self, record: RunRecord) -> bool:
        if record.host != this_host():
            raise DriverError(f"This Run belongs to the host {record.host}; only that host can tell.")
        if record.boot_id != boot_id():
            return False
        return is_locked(self._folder(record.run_id) / "lock")

    def _frozen(self, record: RunRecord) -> bool:
        with InitClient(record.address.socket) as client:
            return client.hello["frozen"]

    async def _ask(self, record: RunRecord, op: str, **fields) -> dict:
        """Send a request to the init in a thread; raise its refusal as DriverError."""

        def ask():
            with InitClient(record.address.socket, lead=record.address.lead) as client:
                try:
                    return client.request(op, **fields)
                except InitRefused as refused:
                    raise DriverError(f"The workspace refused to {op}: {refused}") from refused

        return await asyncio.to_thread(ask)

    def _sweep(self, record: RunRecord) -> None:
        """End programs that survived a killed init; there are none if they were in its pid namespace."""

    def _stop(self, record: RunRecord, grace_s: float) -> None:
        """Ask the init to stop, and kill it if it does not end in time."""
        if not self._alive(record):
            self._sweep(record)
            return
        record = replace(self._read(record.run_id) or record, stopping=True)
        self._write(record)
        with contextlib.suppress(InitGone, InitRefused):
            with InitClient(record.address.socket, timeout_s=2.0, lead=record.address.lead) as client:
                client.request("stop", grace_s=grace_s)
        lock = self._folder(record.run_id) / "lock"
        if not _wait_free(lock, grace_s + self._extra_grace_s(record)):
            self._kill(record)
            if not _wait_free(lock, 5.0):
                raise DriverError("The workspace's programs could not be stopped.")
            self._sweep(record)

    def _kill(self, record: RunRecord) -> None:
        """Send SIGKILL to the init; if it is pid 1 of a pid namespace, the kernel kills every process in it."""
        if start_time(record.pid) == record.start_time:  # else another process has this pid by now
            _kill_pid(record.pid)
        # The holder of the lock is the init or is about to exec it, so its pid cannot have been reused.
        if is_locked(self._folder(record.run_id) / "lock"):
            _kill_pid(self._init_pid(record))

    def _clear(self, record: RunRecord) -> None:
        if self._alive(record):
            raise DriverError("The Run is alive; stop it first.")
        self._sweep(record)
        self._forget(record)

    def _forget(self, record: RunRecord) -> None:
        """Remove the cgroups, the socket and the Run's folder."""
        deadline = time.monotonic() + 2.0
        while not cgroups.remove(record.cgroups) and time.monotonic() < deadline:
            time.sleep(0.02)  # killed processes leave their cgroup with a delay
        Path(record.address.socket).unlink(missing_ok=True)
        folder = self._folder(record.run_id)
        for place in (folder / SNAPSHOTS).glob("*"):
            unmount(place)  # whoever served it has ended with the Run, or is gone
        shutil.rmtree(folder, ignore_errors=True)


def lead_of(spec: RunSpec) -> tuple:
    """Return the `Address.lead` of a Run; () if nobody leads its workspace."""
    return (spec.workspace_id, spec.lead) if spec.lead else ()


def _spawn_launcher(log: Path, keep: list[int]) -> subprocess.Popen:
    """Start launch.py, which waits for its instructions on standard input."""
    with open(log, "wb") as file:
        launcher = subprocess.Popen(
            [sys.executable, "-I", "-S", str(HERE / "launch.py")],
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
            pass_fds=keep,
            start_new_session=True,
            env={},
            cwd="/",
        )
    reap_in_background(launcher)
    return launcher


def _process(entry: dict, tree: str) -> Process:
    """Convert an entry of the init's answer; of the open files, keep those in the tree."""
    opened = [path for path in entry.get("open", ()) if path == tree or path.startswith(tree.rstrip("/") + "/")]
    argv = tuple(entry["argv"])
    return Process(entry["pid"], entry["ppid"], entry["session"], entry["state"], argv, entry["cwd"], tuple(opened))


def _kill_pid(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def listen(path: Path) -> socket.socket:
    """Listen on a new unix socket at `path`, accessible only to its owner."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    with short_address(path) as address:
        listener.bind(address)
    os.chmod(path, 0o600)
    listener.listen(64)
    return listener


def _wait_free(path: Path, seconds: float) -> bool:
    """Wait until nobody holds the lock; return False after `seconds`."""
    deadline = time.monotonic() + seconds
    while is_locked(path):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
