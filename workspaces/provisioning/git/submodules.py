"""Clone a source with its submodules, each under the rules of the source itself; what cannot be cloned is named."""

import dataclasses
import os
import re
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

from dashboard.problems import Problem
from workspaces.provisioning.git import addresses, cloning, running
from workspaces.provisioning.git.addresses import Git
from workspaces.provisioning.git.credentials import NONE, Credential
from workspaces.provisioning.git.lfs import Pulling
from workspaces.provisioning.git.running import CloneFailed

MOST = 200  # submodules of a source, nested ones included
DEEPEST = 8
URL_SHOWN = 500
MODULES = ".gitmodules"
USERINFO = re.compile(r"//[^/@]*@")
CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def clone(
    wish: dict,
    folder: Path,
    *,
    credential_of: Callable[[Git], Credential] = lambda source: NONE,
    left: bool = False,
    pulling: Pulling | None = None,
    cancel: threading.Event | None = None,
) -> dict:
    """Clone the source {git, ref} into the empty folder, with its submodules, or `left` as empty folders.

    `credential_of` returns what the team has for the host of a source. A submodule gets the credential of its source's
    origin if it has the source's owner too, so that a foreign repository brings none of the team's private ones.
    Return the source with `sha`, with `default_branch` if it names one, and, if it has submodules, `submodules`: a
    list of {path, url, sha, reason}, in which a reason says why one is not filled; with `pulling`, if it has files of
    git-lfs, `lfs` (lfs.Pulling.told). Raise Problem or CloneFailed for the source alone.
    """
    source = addresses.check_git(wish["git"], wish.get("ref", ""))
    credential = credential_of(source)
    sha = cloning.clone(source, folder, credential=credential, cancel=cancel)
    made = {name: wish[name] for name in ("git", "ref") if name in wish} | {"sha": sha}
    if not sha:
        return made
    if default := cloning.default_branch(folder):
        made["default_branch"] = default
    if pulling is not None:
        pulling.of(source, folder)
    if told := _Filling(source, credential, cancel, left=left, pulling=pulling).run(folder):
        made["submodules"] = told
    if pulling is not None and pulling.has_files:
        made["lfs"] = pulling.told
    return made


class _Filling:
    """The submodules of one source, nested ones as well."""

    def __init__(self, source: Git, credential: Credential, cancel: threading.Event | None, *, left, pulling):
        self.source, self.credential, self.cancel = source, credential, cancel
        self.left, self.pulling = left, pulling
        self.until = time.monotonic() + running.CLONE_SECONDS
        self.told: list[dict] = []
        self.more = 0

    def run(self, folder: Path) -> list[dict]:
        self._level(self.source, folder, "", 1)
        if any(not row["reason"] for row in self.told):
            with running.git_in(folder, self.cancel) as git:  # .git of each one becomes a folder below .git/modules
                git("submodule", "--quiet", "absorbgitdirs", check=False)
        if self.more:
            reason = f"{self.more:,} more submodules are not cloned: a source can have {MOST}."
            self.told.append({"path": "", "url": "", "sha": "", "reason": reason})
        return self.told

    def _level(self, parent: Git, folder: Path, prefix: str, depth: int) -> None:
        with running.git_in(folder, self.cancel) as git:
            for path, sha, said in _listed(git):
                if len(self.told) >= MOST:
                    self.more += 1
                    continue
                url = said.get("url", "")
                shown = USERINFO.sub("//", CONTROL.sub("?", url[:URL_SHOWN]))
                row = {"path": prefix + path, "url": shown, "sha": sha, "reason": ""}
                self.told.append(row)
                try:
                    checked = self._checked(parent, folder, path, said, depth)
                    self._one(checked, folder / path, sha)
                    env = running.LOCAL | {"GIT_LITERAL_PATHSPECS": "1"}
                    git("submodule", "--quiet", "init", "--", path, env=env, check=False)
                except (CloneFailed, Problem) as error:
                    row["reason"] = str(error)[:500]
                else:
                    if self.pulling is not None:
                        self.pulling.of(checked, folder / path, f"{prefix}{path}/", lent=self._is_ours(checked))
                    self._level(checked, folder / path, f"{prefix}{path}/", depth + 1)

    def _checked(self, parent: Git, folder: Path, path: str, said: dict[str, str], depth: int) -> Git:
        """Return the checked source of a submodule; raise CloneFailed or Problem if it cannot be cloned."""
        if self.left:
            raise CloneFailed("The environment leaves submodules as empty folders.")
        url = said.get("url", "")
        if not url:
            raise CloneFailed(f"{MODULES} has no address for it.")
        if said.get("update") == "none":
            raise CloneFailed(f"{MODULES} says that it is not filled (update = none).")
        if depth > DEEPEST:
            raise CloneFailed(f"It is nested deeper than {DEEPEST} submodules.")
        if time.monotonic() > self.until:
            raise CloneFailed(f"The submodules before it took longer than {running.CLONE_SECONDS} seconds.")
        place = folder / path
        if os.path.realpath(place) != str(Path(os.path.realpath(folder)) / path) or not place.is_dir():
            raise CloneFailed("Its path is not a folder of the source.")
        found = addresses.check_git(absolute(parent.address, url))
        if found.scheme == "file" and self.source.scheme != "file":
            raise CloneFailed("A repository from elsewhere can't name a folder of this host.")
        return self._without_keys(found)

    def _without_keys(self, found: Git) -> Git:
        """Return the source without Handrail's own keys if it belongs to others than the source that a person named."""
        if self._credential(found).is_sent or _owner(found) == _owner(self.source) is not None:
            return found
        if found.scheme == "ssh":
            raise CloneFailed(f"An ssh key for {found.host} is used only for submodules of the source's own owner.")
        return dataclasses.replace(found, lent=False)

    def _credential(self, found: Git) -> Credential:
        """Return the source's credential for a submodule of its own origin and owner, NONE for another one."""
        return self.credential if self._is_ours(found) else NONE

    def _is_ours(self, found: Git) -> bool:
        """Return whether a submodule is of the source's own origin and owner."""
        return _kept_by(found) == _kept_by(self.source) is not None

    def _one(self, source: Git, place: Path, sha: str) -> None:
        try:
            how = {"credential": self._credential(source), "cancel": self.cancel}
            found = cloning.clone(dataclasses.replace(source, ref=sha), place, **how)
            if found != sha:
                raise CloneFailed(f"Its repository has no commit {sha[:12]}.")
        except BaseException:
            for entry in os.scandir(place):
                shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)
            raise


def _listed(git) -> list[tuple[str, str, dict[str, str]]]:
    """Return (path, commit, its settings in .gitmodules) of each submodule of HEAD."""
    entries = git("ls-tree", "-r", "-z", "--full-tree", "HEAD").split("\0")
    links = dict(reversed(entry.removeprefix("160000 commit ").split("\t", 1)) for entry in entries if _is_link(entry))
    if not links:
        return []
    pattern = r"^submodule\..*\.(path|url|update)$"
    said = git("config", "--blob", f"HEAD:{MODULES}", "-z", "--get-regexp", pattern, check=False)
    named: dict[str, dict[str, str]] = {}
    for setting in filter(None, said.split("\0")):
        key, _, value = setting.partition("\n")
        name, _, field = key.removeprefix("submodule.").rpartition(".")
        named.setdefault(name, {})[field] = value
    by_path = {found["path"].rstrip("/"): found for found in named.values() if "path" in found}
    return [(path, sha, by_path.get(path, {})) for path, sha in links.items()]


def _is_link(entry: str) -> bool:
    return entry.startswith("160000 commit ") and "\t" in entry


def absolute(parent: str, url: str) -> str:
    """Return the address of a submodule, resolved against its parent's if it is relative, as git does it."""
    if not url.startswith(("./", "../")):
        return url
    base, between = parent.removesuffix("/"), "/"
    while url.startswith(("./", "../")):
        if url.startswith("../"):
            cut = base.rfind("/")
            if cut < 0:
                cut, between = base.rfind(":"), ":"
            if cut < 0:
                raise CloneFailed("Its address leads out of that of its parent.")
            base = base[:cut]
        url = url.partition("/")[2]
    return f"{base}{between}{url}".removesuffix("/")


def _kept_by(source: Git) -> tuple[str, str, int, str] | None:
    """Return (scheme, host, port, owner), owner "" for a repository alone; None if the path does not tell."""
    name = addresses.owner(source.path)
    return None if name is None else (source.scheme, source.host, source.port, name)


def _owner(source: Git) -> tuple[str, str, int, str] | None:
    """Return `_kept_by`, None for a host that has no owners."""
    return _kept_by(source) if addresses.owner(source.path) else None
