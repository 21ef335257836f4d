"""The remotes of a connected folder's repository, as its configuration names them, and what they lead to."""

import os
import re
import stat
import subprocess
from pathlib import Path

from workspaces.drivers.box import main_repository

CONFIG_SECONDS = 5
MAX_REMOTES = 50
MAX_HEAD = 512
MAX_URL = 500  # characters
HEAD = re.compile(rb"ref: refs/heads/([A-Za-z0-9_][A-Za-z0-9_./-]{0,200})\n?")
NAME = re.compile(r"[A-Za-z0-9_][\w.-]{0,100}")
# No other transport: helpers (`ext::`) start programs, and http:// and git:// show what they carry to the network.
# pattern: an address of at most MAX_URL characters
ADDRESS = re.compile(
    r"(?:https://|ssh://(?:[\w.~+-]+@)?)(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*)(?::\d+)?/+(?P<path>[\w.~/+-]+)"
    r"|(?:[\w][\w.-]*@)?(?P<scp_host>[A-Za-z0-9][A-Za-z0-9.-]*):(?P<scp_path>/?[\w.~][\w.~/+-]*)"
    r"|(?:file://)?(?P<local>/[^\x00-\x1f]*)"
)
QUIET = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "LANG": "C.UTF-8"}


def configured(folder: Path) -> dict[str, str]:
    """Return {name: URL} of the repository whose top is the folder; empty if there is none.

    Only its own configuration file is read. A remote of several URLs, of an unusual name, or whose URL has credentials
    or leads into the folder itself, is left out.
    """
    git = folder / ".git"
    repository = git if git.is_dir() else main_repository(folder) if git.is_file() else None
    if repository is None:
        return {}
    argv = ["git", "config", "--file", str(repository / "config"), "--no-includes", "--null", "--get-regexp"]
    try:
        said = subprocess.run(
            [*argv, r"^remote\..*\.url$"], cwd="/", env=QUIET, capture_output=True, timeout=CONFIG_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    found: dict[str, list[str]] = {}
    for entry in said.stdout.decode("utf-8", "replace").split("\0")[:MAX_REMOTES]:
        key, _, url = entry.partition("\n")
        found.setdefault(key.removeprefix("remote.").removesuffix(".url"), []).append(url)
    kept = {name: urls[0] for name, urls in found.items() if len(urls) == 1 and NAME.fullmatch(name)}
    return {name: url for name, url in kept.items() if _is_usable(url, folder)}


def _read(url: str) -> re.Match | None:
    return ADDRESS.fullmatch(url) if len(url) <= MAX_URL else None


def _is_usable(url: str, folder: Path) -> bool:
    if _read(url) is None:
        return False
    path = local_path(url)
    return path is None or not path.is_relative_to(folder)


def branch(folder: Path) -> str:
    """Return the branch that is checked out in the repository whose top is the folder; "" if that is not plain."""
    try:
        opened = os.open(folder / ".git" / "HEAD", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with open(opened, "rb") as file:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            return ""  # a pipe would keep us waiting
        found = HEAD.fullmatch(file.read(MAX_HEAD))
    return found[1].decode() if found else ""


def local_path(url: str) -> Path | None:
    """Return the path of a remote on this machine, else None."""
    found = _read(url)
    return Path(found["local"]).resolve() if found and found["local"] else None


def repository_of(url: str) -> str:
    """Return HOST/OWNER/REPOSITORY of a remote's URL, in lower case; "" for a path of this machine."""
    found = _read(url)
    if found is None or found["local"]:
        return ""
    path = (found["path"] or found["scp_path"]).strip("/").removesuffix(".git")
    return f"{found['host'] or found['scp_host']}/{path}".lower()
