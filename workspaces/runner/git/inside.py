"""What git needs inside of a workspace besides an identity: the filter of git-lfs's files, where these are pulled."""

import shlex
from pathlib import Path

from workspaces.drivers import own_programs
from workspaces.models import Lfs
from workspaces.provisioning import git_identity
from workspaces.provisioning.git import lfs_filter

LFS = "handrail/lfs.py"  # below /etc


def files(workspace) -> dict[str, bytes]:
    """Return {path below /etc: content}: git's settings of the system, and the programs that they name."""
    sections, programs = [], {}
    if workspace.environment.lfs == Lfs.PULLED:
        # Settings of git-lfs itself, where an image has it, are read later and count more.
        sections.append('[filter "lfs"]')
        sections += [f"\t{word} = {_value(_command(workspace, LFS, word))}" for word in ("clean", "smudge")]
        sections.append("\trequired = true")
        programs[LFS] = lfs_source()
    return git_identity.files(workspace, sections) | programs


def lfs_source() -> bytes:
    return Path(lfs_filter.__file__).read_bytes()


def _command(workspace, program: str, *arguments: str) -> str:
    return shlex.join(own_programs.command(workspace.environment.driver, f"/etc/{program}", *arguments))


def _value(text: str) -> str:
    """Return a value as git's settings quote it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
