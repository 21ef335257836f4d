"""Workspaces in an existing folder of a user, running as that user: approvals and snapshots, but no isolation."""

import os
import pwd
import signal
from pathlib import Path

from .base import Address, Capabilities, DriverError, Limits, Probe, RunRecord, RunSpec
from .local import LocalDriver
from .program_archive import init_archive, write_program
from .sandbox import SHELL, find_python

MARK = "HANDRAIL_RUN"
PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")


class FolderDriver(LocalDriver):
    name = "folder"
    capabilities = Capabilities(isolation="none", freeze=False, memory=False, network=False, limits=False)

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

    def _address(self, spec: RunSpec) -> Address:
        env = user_env(spec.uid) | dict(spec.env) | {MARK: spec.run_id}
        return Address(socket="", env=env, cwd=str(spec.workspace), shell=SHELL)

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
        argv = [program, "-I", "-S", f"/dev/fd/{init}", *init_args]
        user = _user(spec.uid)
        return {
            "argv": argv,
            "env": {},
            "cwd": str(spec.workspace),
            "stage": {},
            "keep": [init],
            "gid": user.pw_gid,
            "groups": os.getgrouplist(user.pw_name, user.pw_gid),
        }


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
