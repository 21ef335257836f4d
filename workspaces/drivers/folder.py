"""An existing folder of the user, as the user: asks and keeps snapshots, holds nothing back."""

import os
import pwd
import signal
from pathlib import Path

from .base import Address, Capabilities, DriverError, Owner, Probe, RunSpec
from .local import HERE, LocalDriver
from .sandbox import SHELL, find_python

MARK = "HANDRAIL_RUN"
PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")


class FolderDriver(LocalDriver):
    name = "folder"
    capabilities = Capabilities(isolation="none", freeze=False, memory=False, network=False, limits=False)

    async def probe(self) -> Probe:
        return Probe(True, notes=("Programs run as the folder's own user; nothing is held back.",))

    async def prepare(self, spec: RunSpec) -> None:
        """The folder is the user's; we change nothing in it."""
        self._check(spec)

    def _check(self, spec: RunSpec) -> None:
        super()._check(spec)
        owner = os.stat(spec.workspace).st_uid
        if spec.uid != owner:
            raise DriverError(f"{spec.workspace} belongs to user {owner}; its programs can only run as that user.")

    def _address(self, spec: RunSpec) -> Address:
        env = user_env(spec.uid) | dict(spec.env) | {MARK: spec.run_id}
        return Address(socket="", env=env, cwd=str(spec.workspace), shell=SHELL)

    def _sweep(self, owner: Owner) -> None:
        # No namespace dies with the init, so its programs are known by the mark that they inherit.
        mark = f"{MARK}={owner.run_id}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if folder.stat().st_uid == owner.uid and mark in (folder / "environ").read_bytes().split(b"\0"):
                    os.kill(int(folder.name), signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue  # it ended meanwhile, or is none of ours

    def _command(self, spec: RunSpec, folder: Path, init_args: list[str]) -> dict:
        program, _prefix = find_python()
        # By descriptor: the file may lie where this user cannot go, and there is no sandbox to show it in.
        init = os.open(HERE / "init.py", os.O_RDONLY | os.O_CLOEXEC)
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
    """What a login of this user would have, and of our own environment only what is no secret of Handrail."""
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
