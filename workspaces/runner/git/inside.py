"""What git has inside of a workspace besides an identity: the filter of git-lfs's files, and what signs commits."""

import shlex
from pathlib import Path

from workspaces.drivers import own_programs
from workspaces.models import Lfs
from workspaces.provisioning import git_identity
from workspaces.provisioning.git import lfs_filter, sign_program
from workspaces.services import network, signatures

# Below /etc.
LFS = "handrail/lfs.py"
PROGRAM, SIGN, SIGNERS = "handrail/sign.py", "handrail/sign", "handrail/allowed_signers"


def files(workspace) -> dict[str, bytes]:
    """Return {path below /etc: content}: git's settings of the system, and the programs that they name."""
    sections, programs = [], {}
    if workspace.environment.lfs == Lfs.PULLED:
        # Settings of git-lfs itself, where an image has it, are read later and count more.
        sections.append('[filter "lfs"]')
        sections += [f"\t{word} = {_value(_command(workspace, LFS, word))}" for word in ("clean", "smudge")]
        sections.append("\trequired = true")
        programs[LFS] = lfs_source()
    if public := signatures.public_key_for(workspace):
        words = _command(workspace, PROGRAM, network.URL, workspace.key)
        sections += ["[gpg]", "\tformat = ssh", '[gpg "ssh"]', f"\tprogram = /etc/{SIGN}"]
        sections += [f"\tallowedSignersFile = /etc/{SIGNERS}", "[user]", f"\tsigningKey = {_value(public)}"]
        sections += ["[commit]", "\tgpgSign = true", "[tag]", "\tgpgSign = true"]
        programs[PROGRAM] = Path(sign_program.__file__).read_bytes()
        programs[SIGN] = f'#!/bin/sh\nexec {words} "$@"\n'.encode()
        programs[SIGNERS] = f"{git_identity.allowed_signers(public)}\n".encode()
    return git_identity.files(workspace, sections) | programs


def lfs_source() -> bytes:
    return Path(lfs_filter.__file__).read_bytes()


def _command(workspace, program: str, *arguments: str) -> str:
    return shlex.join(own_programs.command(workspace.environment.driver, f"/etc/{program}", *arguments))


def _value(text: str) -> str:
    """Return a value as git's settings quote it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
