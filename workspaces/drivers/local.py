"""What the drivers of this host share: a Run is our `init.py`, its record, its lock and its socket.

HOME/runs/RUN_ID/owner.json   the Owner, replaced in one step
HOME/runs/RUN_ID/lock         held by the init as long as it lives: the one proof of life
HOME/runs/RUN_ID/log          what the launcher and the init had to say
RUNTIME/RUN_ID                the init's socket
"""

import asyncio
import contextlib
import fcntl
import marshal
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from . import cgroups
from .base import Address, Driver, DriverError, Limits, Owner, Process, RunSpec, boot_id, start_time, this_host
from .initclient import InitClient, InitGone, InitRefused, short_address

HERE = Path(__file__).parent
START_S = 20.0


class LocalDriver(Driver):
    """Runs of this host under our init; a subclass says in `_command` how the init is started."""

    start_s: ClassVar[float] = START_S  # until the init answers
    hello_s: ClassVar[float] = 0.5  # for one try; whoever is slow to answer is not asked once more meanwhile

    # For subclasses. What `_start` is given besides the spec (`**how`) reaches `_command` and `_launched`.

    def _command(self, spec: RunSpec, folder: Path, init_args: list[str], **how) -> dict:
        """`{argv, env, cwd, stage, keep}` for launch.py, `keep` being open descriptors that the program is to inherit.

        `init_args` are the two descriptors that the init itself is called with.
        """
        raise NotImplementedError

    def _address(self, spec: RunSpec) -> Address:
        raise NotImplementedError

    def _host_limits(self, spec: RunSpec) -> Limits:
        """What the control groups of this host are to hold."""
        return spec.limits

    def _limits_in_force(self, spec: RunSpec, by_cgroups: frozenset[str]) -> frozenset[str]:
        return by_cgroups

    def _image(self, spec: RunSpec) -> str | None:
        """What its root is made of, by version and digest."""
        return spec.image

    def _began(self, **how) -> str:
        """The Run whose programs go on in this one; "" when none do."""
        return ""

    def _launched(self, owner: Owner, spec: RunSpec, **how) -> None:
        """Between the launch and the init's first words."""

    def _explain(self, log: str) -> str:
        """A sentence for a start that failed, from what was printed."""
        last = (log.strip().splitlines() or ["it said nothing"])[-1]
        return f"The workspace's first process did not start: {last[:300]}"

    def _why(self, owner: Owner) -> str:
        """Why a Run ended that nobody asked to end."""
        if cgroups.oom_kills(owner.address.oom_file):
            return "out of memory"
        return "its first process was killed or crashed"

    def _patience(self, owner: Owner) -> float:
        """Seconds that the init may need after its programs have ended."""
        return 3.0

    # Verbs

    async def start(self, spec: RunSpec) -> Owner:
        return await asyncio.to_thread(self._start, spec)

    async def owners(self) -> Sequence[Owner]:
        return await asyncio.to_thread(self._owners)

    async def alive(self, owner: Owner) -> bool:
        return await asyncio.to_thread(self._alive, owner)

    async def end_reason(self, owner: Owner) -> str:
        if owner.boot_id != boot_id():
            return "the host restarted"
        recorded = await asyncio.to_thread(self._read, owner.run_id) or owner
        return "stopped" if recorded.stopping else await asyncio.to_thread(self._why, owner)

    async def freeze(self, owner: Owner) -> None:
        if not self.capabilities.freeze:
            raise DriverError("Programs in this kind of workspace cannot be frozen.")
        await self._ask(owner, "freeze", timeout_s=15.0)

    async def thaw(self, owner: Owner) -> None:
        await self._ask(owner, "thaw")

    async def frozen(self, owner: Owner) -> bool:
        return await asyncio.to_thread(self._frozen, owner)

    async def processes(self, owner: Owner, *, open_files: bool = False) -> Sequence[Process]:
        answer = await self._ask(owner, "processes", open=open_files)
        tree = owner.address.cwd
        return [_process(entry, tree) for entry in answer["processes"]]

    async def stop(self, owner: Owner, *, grace_s: float = 5.0) -> None:
        await asyncio.to_thread(self._stop, owner, grace_s)

    async def clear(self, owner: Owner) -> None:
        await asyncio.to_thread(self._clear, owner)

    # How

    def _folder(self, run_id: str) -> Path:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", run_id):
            raise DriverError(f"{run_id!r} cannot be the name of a Run.")
        return self.home / "runs" / run_id

    def _start(self, spec: RunSpec, **how) -> Owner:
        self._check(spec)
        folder = self._folder(spec.run_id)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = _take_lock(folder / "lock")
        if lock is None:
            return self._join(spec.run_id)
        try:
            if (known := self._read(spec.run_id)) is not None and known.pid is not None:
                raise DriverError("This Run has ended; it cannot be started again.")
            return self._launch(spec, folder, lock, **how)
        finally:
            os.close(lock)

    def _check(self, spec: RunSpec) -> None:
        if spec.uid == 0:
            raise DriverError("A workload never runs as root: the Run needs a user of its own.")
        if os.getuid() not in (0, spec.uid):
            raise DriverError("Only root can run a workspace as another user.")
        if not spec.workspace.is_dir():
            raise DriverError(f"The workspace's folder {spec.workspace} does not exist.")

    def _launch(self, spec: RunSpec, folder: Path, lock: int, **how) -> Owner:
        groups, in_force, oom_file = cgroups.create(spec.run_id, self._host_limits(spec))
        address = self._address(spec)
        address = replace(address, socket=str(self.runtime / spec.run_id), oom_file=address.oom_file or oom_file)
        owner = Owner(
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
        )
        self._write(owner)
        with listen(Path(address.socket)) as listener:
            keep = [listener.fileno(), lock]
            command = self._command(spec, folder, [str(fd) for fd in keep], **how)
            keep += command["keep"]
            launcher = _spawn_launcher(folder / "log", keep)
            for fd in command["keep"]:
                os.close(fd)
        owner = replace(owner, pid=launcher.pid, start_time=start_time(launcher.pid))
        self._write(owner)
        launch = {"cgroups": groups, "uid": spec.uid, "gid": spec.uid, "groups": []} | command | {"keep": keep}
        with contextlib.suppress(BrokenPipeError):
            launcher.stdin.write(marshal.dumps(launch))
            launcher.stdin.close()
        return self._await_init(owner, launcher, spec, **how)

    def _await_init(self, owner: Owner, launcher: subprocess.Popen, spec: RunSpec, **how) -> Owner:
        """The record of a Run whose init has answered; what did not come up is ended and forgotten."""
        try:
            self._launched(owner, spec, **how)
        except DriverError:
            self._kill(owner)
            self._forget(owner)
            raise
        if self._hello(owner, lambda: launcher.poll() is None) is None:
            self._kill(owner)
            log = (self._folder(owner.run_id) / "log").read_text(errors="replace")
            self._forget(owner)
            raise DriverError(self._explain(log))
        pid = self._init_pid(owner)
        owner = replace(owner, pid=pid, start_time=start_time(pid))
        self._write(owner)
        return owner

    def _hello(self, owner: Owner, may_come: Callable[[], bool]) -> dict | None:
        """The init's first words; None when they do not come in time, or cannot any more."""
        deadline = time.monotonic() + self.start_s
        while time.monotonic() < deadline:
            try:
                # The socket listens before the init exists, so the wait is for its first words.
                with InitClient(owner.address.socket, timeout_s=self.hello_s) as init:
                    return init.hello
            except InitGone:
                if not may_come():
                    return None
                time.sleep(0.005)
        return None

    def _join(self, run_id: str) -> Owner:
        """Somebody else is starting this Run, or has: wait until it answers."""
        deadline = time.monotonic() + self.start_s
        while time.monotonic() < deadline:
            owner = self._read(run_id)
            if owner is not None and owner.pid is not None:
                with contextlib.suppress(InitGone), InitClient(owner.address.socket, timeout_s=1.0):
                    return owner
            time.sleep(0.05)
        raise DriverError("The Run is being started by somebody else and does not answer.")

    def _init_pid(self, owner: Owner) -> int:
        """The init's pid as this host counts; the launcher became it, unless a subclass knows better."""
        return owner.pid

    def _owners(self) -> list[Owner]:
        runs = self.home / "runs"
        names = sorted(os.listdir(runs)) if runs.is_dir() else []
        found = [self._read(name) for name in names]
        return [owner for owner in found if owner is not None and owner.driver == self.name]

    def _read(self, run_id: str) -> Owner | None:
        try:
            return Owner.from_json((self._folder(run_id) / "owner.json").read_text())
        except FileNotFoundError:
            return None

    def _write(self, owner: Owner) -> None:
        replace_file(self._folder(owner.run_id) / "owner.json", owner.to_json().encode())

    def _alive(self, owner: Owner) -> bool:
        if owner.host != this_host():
            raise DriverError(f"This Run belongs to the host {owner.host}; only that host can tell.")
        if owner.boot_id != boot_id():
            return False
        return held(self._folder(owner.run_id) / "lock")

    def _frozen(self, owner: Owner) -> bool:
        with InitClient(owner.address.socket) as client:
            return client.hello["frozen"]

    async def _ask(self, owner: Owner, op: str, **fields) -> dict:
        def ask():
            with InitClient(owner.address.socket) as client:
                try:
                    return client.request(op, **fields)
                except InitRefused as refused:
                    raise DriverError(f"The workspace refused to {op}: {refused}") from refused

        return await asyncio.to_thread(ask)

    def _sweep(self, owner: Owner) -> None:
        """End what survived an init that was killed; nothing can, where a pid namespace goes with it."""

    def _stop(self, owner: Owner, grace_s: float) -> None:
        if not self._alive(owner):
            self._sweep(owner)
            return
        owner = replace(self._read(owner.run_id) or owner, stopping=True)
        self._write(owner)
        with contextlib.suppress(InitGone, InitRefused), InitClient(owner.address.socket, timeout_s=2.0) as client:
            client.request("stop", grace_s=grace_s)
        lock = self._folder(owner.run_id) / "lock"
        if not _wait_free(lock, grace_s + self._patience(owner)):
            self._kill(owner)
            if not _wait_free(lock, 5.0):
                raise DriverError("The workspace's programs could not be stopped.")
            self._sweep(owner)

    def _kill(self, owner: Owner) -> None:
        """SIGKILL to the init; in a pid namespace everything goes with it."""
        if start_time(owner.pid) == owner.start_time:  # else another process has this pid by now
            _kill_pid(owner.pid)
        # Whoever holds the lock is the init or is about to become it, so its pid cannot have been used again.
        if held(self._folder(owner.run_id) / "lock"):
            _kill_pid(self._init_pid(owner))

    def _clear(self, owner: Owner) -> None:
        if self._alive(owner):
            raise DriverError("The Run is alive; stop it first.")
        self._sweep(owner)
        self._forget(owner)

    def _forget(self, owner: Owner) -> None:
        deadline = time.monotonic() + 2.0
        while not cgroups.remove(owner.cgroups) and time.monotonic() < deadline:
            time.sleep(0.02)  # the dead leave their group a moment after they have died
        Path(owner.address.socket).unlink(missing_ok=True)
        shutil.rmtree(self._folder(owner.run_id), ignore_errors=True)


def _spawn_launcher(log: Path, keep: list[int]) -> subprocess.Popen:
    """launch.py, waiting for what it is to become on its standard input."""
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
    opened = [path for path in entry.get("open", ()) if path == tree or path.startswith(tree.rstrip("/") + "/")]
    argv = tuple(entry["argv"])
    return Process(entry["pid"], entry["ppid"], entry["session"], entry["state"], argv, entry["cwd"], tuple(opened))


def replace_file(path: Path, content: bytes) -> None:
    """Put `content` in place of `path`, whole and durable, or leave what is there."""
    fresh = path.with_name(path.name + ".new")
    with open(fresh, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def reap_in_background(process: subprocess.Popen) -> None:
    """Wait for a child that outlives its caller, so that it never stays as a zombie."""
    threading.Thread(target=process.wait, name=f"reap {process.pid}", daemon=True).start()


def _kill_pid(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def listen(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    with short_address(path) as address:
        listener.bind(address)
    os.chmod(path, 0o600)
    listener.listen(64)
    return listener


def _take_lock(path: Path) -> int | None:
    """The lock, held by the returned descriptor and by whoever inherits it; None while somebody else has it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + 0.2
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return fd
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(fd)
                return None
            time.sleep(0.01)  # somebody may only be looking


def held(path: Path) -> bool:
    """Does anybody hold the lock? Those who look share it, so that they are not taken for holders."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _wait_free(path: Path, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while held(path):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
