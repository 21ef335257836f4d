"""Workspaces in an existing folder of a user, running as that user: approvals and snapshots, but no isolation.

With `in_box`, the Run is in a box (`box.py`), where the kernel holds each call of an agent to its envelope.
"""

import os
import pwd
import signal
from pathlib import Path

from .. import box
from ..base import Address, DriverError, Limits, Probe, RunRecord, RunSpec, tcp_tables_of
from ..capabilities import TABLE
from ..local import LocalDriver
from ..program_archive import init_archive, write_program
from ..sandbox.driver import SHELL, child_pid, explanation, find_bwrap, find_python

MARK = "HANDRAIL_RUN"
INIT = "/run/handrail-init.pyz"  # in a box
PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")


class FolderDriver(LocalDriver):
    name = "folder"
    capabilities = TABLE[name]

    async def probe(self) -> Probe:
        return Probe(True, notes=("Not sandboxed: programs run as the folder's owner.",))

    def _host_limits(self, spec: RunSpec) -> Limits:
        return Limits(pids=None)  # programs run as the user, under the user's own limits

    async def prepare(self, spec: RunSpec) -> None:
        """Only check the spec: the folder belongs to the user and is left as it is."""
        self._check(spec)

    def _check(self, spec: RunSpec) -> None:
        super()._check(spec)
        owner = os.stat(spec.workspace).st_uid
        if spec.uid != owner:
            raise DriverError(f"{spec.workspace} belongs to user {owner}; its programs can only run as that user.")
        if spec.in_box:
            box.check(_shown(spec), home_of(spec.uid))

    def _address(self, spec: RunSpec) -> Address:
        env = user_env(spec.uid) | dict(spec.env) | {MARK: spec.run_id}
        return Address(socket="", env=env, cwd=str(_shown(spec)), shell=SHELL)

    def _init_pid(self, record: RunRecord) -> int:
        return child_pid(self._folder(record.run_id)) or record.pid

    def tcp_tables(self, record: RunRecord) -> list[str]:
        return tcp_tables_of(record.pid) if child_pid(self._folder(record.run_id)) else []  # only a box has its own

    def _explain(self, log: str) -> str:
        return explanation(log) or super()._explain(log)

    def _sweep(self, record: RunRecord) -> None:
        # There is no pid namespace to end with the init, so find its programs by the inherited environment variable.
        mark = f"{MARK}={record.run_id}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if folder.stat().st_uid == record.uid and mark in (folder / "environ").read_bytes().split(b"\0"):
                    os.kill(int(folder.name), signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue  # it ended meanwhile, or belongs to another user

    def _command(self, spec: RunSpec, folder: Path, init_args: list[str]) -> dict:
        program, _prefix = find_python()
        # Pass the program as a descriptor: the user cannot reach its path, and no sandbox binds it.
        write_program(folder / "init.pyz", init_archive())
        init = os.open(folder / "init.pyz", os.O_RDONLY | os.O_CLOEXEC)
        keep = [init]
        argv = [program, "-I", "-S", f"/dev/fd/{init}", *init_args]
        if spec.in_box:
            # bwrap writes the init's pid here, so that the Run can be found even if the runner dies now.
            status = os.open(folder / "status", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            keep.append(status)
            argv = [
                *self._boxed(spec, init),
                "--json-status-fd",
                str(status),
                "--",
                program,
                "-I",
                "-S",
                INIT,
                *init_args,
            ]
        user = _user(spec.uid)
        return {
            "argv": argv,
            "env": {},
            "cwd": "/" if spec.in_box else str(spec.workspace),
            "stage": {},
            "keep": keep,
            "gid": user.pw_gid,
            "groups": os.getgrouplist(user.pw_name, user.pw_gid),
        }

    def _boxed(self, spec: RunSpec, init: int) -> list[str]:
        """Return bwrap and its arguments; `init` is the descriptor of the init's archive."""
        bwrap = find_bwrap()
        if bwrap.folders and os.getuid() == 0:
            raise DriverError("Holding calls in a folder of another user needs the system's own bubblewrap.")
        arguments = box.arguments(
            _shown(spec),
            home_of(spec.uid),
            files=spec.workspace,
            absent=(self.home, self.runtime),
            code_host=spec.code_host,
        )
        end = arguments.index("--remount-ro")
        _program, prefix = find_python()
        python = ["--ro-bind", str(prefix), str(prefix)] if prefix is not None else []
        arguments[end:end] = ["--ro-bind-data", str(init), INIT, *python]
        return [str(bwrap.path), *arguments]


def _shown(spec: RunSpec) -> Path:
    return spec.shown_at or spec.workspace


def home_of(uid: int) -> Path:
    """Return the user's home; our own user's is the one that we were started with."""
    return Path.home() if uid == os.getuid() else Path(_user(uid).pw_dir)


def user_env(uid: int) -> dict[str, str]:
    """Return the environment of a login of this user, plus the variables of our own that hold no secrets."""
    user = _user(uid)
    mine = os.environ if uid == os.getuid() else {}
    passed = {name: mine[name] for name in PASSED_ON if name in mine}
    fixed = {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name, "SHELL": user.pw_shell or "/bin/sh"}
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"} | passed | fixed


def _user(uid: int) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(uid)
    except KeyError as error:
        raise DriverError(f"User {uid} is not known on this host.") from error


DRIVER = FolderDriver
