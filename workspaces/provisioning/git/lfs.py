"""Pull the content of a clone's git-lfs files by the batch API, from the source's own host, without git-lfs.

git-lfs itself would contact whatever `.lfsconfig` names, with the network and the credentials of Handrail's user. Here
each address is checked as that of a source is, and only the source's own host ever gets a credential.
"""

import hashlib
import json
import os
import shlex
import shutil
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dashboard.problems import Problem
from workspaces.provisioning.git import credentials, fetching, lfs_filter, running
from workspaces.provisioning.git.addresses import Git, owner
from workspaces.provisioning.git.credentials import NONE, Credential
from workspaces.provisioning.git.running import CloneFailed

BATCH = 100  # objects of one request
ANSWER_BYTES = 4 << 20
CONFIG_BYTES = 64 << 10
MOST_NAMED = 50
API = "/info/lfs"
TYPE = "application/vnd.git-lfs+json"
NOT_LENT = Credential(withheld="None is sent to the address in .lfsconfig: it is not of the source's own owner.")
CLEAN = [sys.executable, "-I", "-S", lfs_filter.__file__, "clean", "--only-look"]


@dataclass(frozen=True)
class Content:
    """The content of one or more files, as their pointers name it."""

    oid: str
    size: int
    paths: tuple[str, ...]


Missing = Callable[[list[Content]], list[Content]]


class Pulling:
    """Pulls the files of a source and of its submodules, at most `limit` bytes on disk together (0: no limit).

    `told`: {files, bytes, left: [{path, reason}], more}. Those left stay pointers; `more` of them are not named.
    """

    def __init__(self, limit: int, credential_of: Callable[[Git], Credential], cancel: threading.Event | None = None):
        self.limit, self.credential_of, self.cancel = limit, credential_of, cancel
        self.ending = fetching.Ending(time.monotonic() + running.CLONE_SECONDS, cancel)
        # The time of the files: git looks again at those that are as new as its index.
        self.began = time.time() - 2
        self.used = 0
        self.told: dict = {"files": 0, "bytes": 0, "left": [], "more": 0}

    @property
    def has_files(self) -> bool:
        return bool(self.told["files"] or self.told["left"])

    def of(self, source: Git, folder: Path, prefix: str = "", *, lent: bool = True) -> None:
        """Put content in the place of pointers in a fresh clone; what cannot be pulled is named, and fails nothing.

        `lent`: whether the team's credential for the source's own host is sent there.
        """
        with running.git_in(folder, self.cancel) as git:
            wanted = _wanted(git, folder)
            kept = self._kept(git, source, folder / ".git", wanted, prefix, lent=lent)
            for content in kept:
                self._write(content, folder)
            # Add them anew, as git takes a file of another size for a changed one without asking the filter.
            add = ("-c", f"filter.lfs.clean={shlex.join(CLEAN)}", "update-index", "--")
            written = [path for content in kept for path in content.paths]
            for at in range(0, len(written), BATCH):
                git(*add, *written[at : at + BATCH], check=False)

    def into(self, source: Git, mirror: Path, base: str, coming: str, missing: Missing) -> None:
        """Keep the content of files that are other in the commit `coming` than in `base`, in a bare repository.

        `missing`: returns those of some contents that are not there yet; without a known `base` all of the commit is.
        """
        with running.git_in(mirror, self.cancel) as git:
            wanted = missing(_wanted_since(git, base, coming))
            for content in self._kept(git, source, mirror, wanted, "", at=coming):
                self.told["files"] += len(content.paths)
                self.told["bytes"] += content.size * len(content.paths)

    def _kept(self, git, source, git_folder: Path, wanted, prefix: str, *, lent=True, at="HEAD") -> list[Content]:
        """Keep contents below a git folder, and return those that could be pulled."""
        if not wanted:
            return []
        try:
            ask = self._asker(source, _url(git, at), lent)
        except (CloneFailed, Problem) as error:
            self._leave(wanted, prefix, error)
            return []
        kept = []
        for start in range(0, len(wanted), BATCH):
            part = wanted[start : start + BATCH]
            try:
                find = ask(part)
            except (CloneFailed, Problem) as error:
                self._leave(wanted[start:], prefix, error)
                break
            for content in part:
                try:
                    self._keep(content, git_folder, find)
                    kept.append(content)
                except (CloneFailed, Problem) as error:
                    self._leave([content], prefix, error)
        return kept

    def _leave(self, contents: list[Content], prefix: str, error: Exception) -> None:
        for path in (path for content in contents for path in content.paths):
            if len(self.told["left"]) < MOST_NAMED:
                self.told["left"].append({"path": prefix + path, "reason": str(error)[:500]})
            else:
                self.told["more"] += 1

    def _keep(self, content: Content, git_folder: Path, find) -> None:
        cost = content.size * (len(content.paths) + 1)  # one more is kept in .git, as git-lfs does it
        if self.limit and self.used + cost > self.limit:
            raise CloneFailed(f"Its {content.size:,} bytes would not fit into the disk limit of the environment.")
        if time.monotonic() > self.ending.until:
            raise CloneFailed(f"The files before it took longer than {running.CLONE_SECONDS} seconds.")
        kept = Path(lfs_filter.place_of(str(git_folder), content.oid))
        kept.parent.mkdir(parents=True, exist_ok=True)
        try:
            with find(content) as pieces, open(kept, "xb") as file:
                _take(content, pieces, file)
        except BaseException:
            kept.unlink(missing_ok=True)
            raise
        self.used += cost

    def _write(self, content: Content, folder: Path) -> None:
        kept = lfs_filter.place_of(str(folder / ".git"), content.oid)
        for path in content.paths:
            fd = os.open(folder / path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW)
            with open(fd, "wb") as target, open(kept, "rb") as file:
                shutil.copyfileobj(file, target, 1 << 20)
                target.flush()
                os.utime(target.fileno(), (self.began, self.began))
            self.told["files"] += 1
            self.told["bytes"] += content.size

    def _asker(self, source: Git, url: str, lent: bool):
        """Return the function that asks for a batch of contents and returns the one that opens each of them."""
        if source.scheme == "file" and not url:
            return lambda wanted: lambda content: _local(Path(source.address), content, self.ending)
        endpoint = fetching.checked(url or _endpoint(source))
        if "?" in endpoint.path or "#" in endpoint.path:
            raise CloneFailed("The address of its git-lfs API can't contain ? or #.")
        fetching.refuse_downgrade(source, endpoint)
        is_lent = lent and (_is_of(source, endpoint) if url else endpoint.host == source.host)
        credential = self.credential_of(endpoint) if is_lent else NOT_LENT if lent and url else NONE
        own = {"Authorization": credentials.basic(credential.token)} if credential.token else {}
        return lambda wanted: self._finder(endpoint, own, _batch(endpoint, wanted, own, credential, self.ending))

    def _finder(self, endpoint: Git, own: dict[str, str], told: dict[str, dict]):
        """Return the function that opens a Content of which the endpoint told."""

        @contextmanager
        def find(content: Content) -> Iterator[Iterator[bytes]]:
            place, headers = _action(told.get(content.oid), endpoint, own)
            with fetching.downloaded(place, headers, self.ending) as response:
                yield fetching.pieces(response.read1, self.ending)

        return find


def _wanted(git, folder: Path) -> list[Content]:
    """Return the contents that pointers with the attribute filter=lfs name."""
    listed = git("ls-files", "-z", "--stage", "--", ":(top,attr:filter=lfs)", check=False)
    found: dict[tuple[str, int], list[str]] = {}
    for entry in filter(None, listed.split("\0")):
        mode, _, path = entry.partition("\t")
        if mode.startswith("100") and (told := _pointer(folder, path)):
            found.setdefault(told, []).append(path)
    return [Content(oid, size, tuple(paths)) for (oid, size), paths in found.items()]


def _wanted_since(git, base: str, coming: str) -> list[Content]:
    """Return the contents that pointers in one commit name, in files that are other in the commit `base`."""
    if not git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{base}^{{commit}}", check=False):
        base = git("hash-object", "-t", "tree", "--stdin")
    asked = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--diff-filter=AMT", base, coming)
    small = _small_files(git, coming)
    changed = [path for path in git(*asked, check=False).split("\0") if path in small]
    found: dict[tuple[str, int], list[str]] = {}
    search = ("grep", "-l", "-z", "--no-color", "-F", "-e", lfs_filter.FIRST_LINE, coming, "--")
    for at in range(0, len(changed), BATCH):
        paths = [f":(top,literal){path}" for path in changed[at : at + BATCH]]
        for name in filter(None, git(*search, *paths, check=False).split("\0")):
            if told := lfs_filter.POINTER.fullmatch(git("cat-file", "blob", name, check=False).encode()):
                contents = found.setdefault((told["oid"].decode(), int(told["size"])), [])
                contents.append(name.removeprefix(f"{coming}:"))
    return [Content(oid, size, tuple(paths)) for (oid, size), paths in found.items()]


def _small_files(git, commit: str) -> set[str]:
    """Return the paths of regular files that are short enough for a pointer."""
    found = set()
    listed = git("ls-tree", "-r", "-l", "-z", "--full-tree", commit, check=False)
    for entry in filter(None, listed.split("\0")):
        told, _, path = entry.partition("\t")
        mode, _, _, size = told.split()
        if mode.startswith("100") and size.isdecimal() and int(size) <= lfs_filter.POINTER_BYTES:
            found.add(path)
    return found


def _url(git, commit: str) -> str:
    """Return the address in .lfsconfig, "" if it has none; CloneFailed for a file that is too long to be read."""
    name = f"{commit}:.lfsconfig"
    if int(git("cat-file", "-s", name, check=False) or 0) > CONFIG_BYTES:
        raise CloneFailed(f"Its .lfsconfig has more than {CONFIG_BYTES:,} bytes.")
    return git("config", "--blob", name, "lfs.url", check=False)


def together(one: dict | None, other: dict) -> dict:
    """Return what is told of the files of a source and of those that a revision of it brought."""
    one = one or {"files": 0, "bytes": 0, "left": [], "more": 0}
    left = [*other["left"], *one["left"]]
    told = {name: one[name] + other[name] for name in ("files", "bytes", "more")}
    return told | {"left": left[:MOST_NAMED], "more": told["more"] + max(0, len(left) - MOST_NAMED)}


def _pointer(folder: Path, path: str) -> tuple[str, int] | None:
    try:
        parent = (folder / path).parent
        if Path(os.path.realpath(parent)) != Path(os.path.realpath(folder)) / Path(path).parent:
            return None
        with open(os.open(folder / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            text = file.read(lfs_filter.POINTER_BYTES + 1)
    except OSError:
        return None
    told = lfs_filter.POINTER.fullmatch(text)
    return (told["oid"].decode(), int(told["size"])) if told else None


def _take(content: Content, pieces: Iterator[bytes], file) -> None:
    """Write what is the content; CloneFailed for anything else."""
    digest, size = hashlib.sha256(), 0
    for piece in pieces:
        size += len(piece)
        if size > content.size:
            break
        digest.update(piece)
        file.write(piece)
    if size != content.size or digest.hexdigest() != content.oid:
        raise CloneFailed("What came is not what its pointer names.")


@contextmanager
def _local(repository: Path, content: Content, ending: fetching.Ending) -> Iterator[Iterator[bytes]]:
    """Yield the content that a repository of this host keeps."""
    root = os.path.realpath(repository)
    for git_folder in (repository / ".git", repository):
        path = lfs_filter.place_of(str(git_folder), content.oid)
        if os.path.realpath(path).startswith(f"{root}/") and os.path.isfile(path):
            with open(path, "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    break
                yield fetching.pieces(file.read, ending)
                return
    raise CloneFailed("The source does not have its content.")


def _endpoint(source: Git) -> str:
    """Return the address of the LFS API of a repository, as git-lfs derives it."""
    if source.scheme.startswith("http"):
        base = source.address
    else:
        where = f"[{source.host}]" if ":" in source.host else source.host
        base = f"https://{where}/{source.path.lstrip('/')}"
    base = base.rstrip("/")
    return f"{base}{'' if base.endswith('.git') else '.git'}{API}"


def _is_of(source: Git, endpoint: Git) -> bool:
    """Return whether an endpoint that a repository names is for one of its owner, at the source's host."""
    if endpoint.host != source.host or not (source.scheme == "ssh" or fetching.is_same_origin(source, endpoint)):
        return False
    path = endpoint.path.removesuffix("/")
    repository = path.removesuffix(API)
    kept = owner(repository)
    if path == repository or "//" in path or kept is None:
        return False
    one, other = (each.strip("/").removesuffix(".git") for each in (repository, source.path))
    return kept == owner(source.path) and bool(kept or one == other)


def _batch(
    endpoint: Git, wanted: list[Content], own: dict[str, str], credential: Credential, ending: fetching.Ending
) -> dict[str, dict]:
    """Ask for contents; return {oid: what the answer says of it}. CloneFailed without an answer that can be read."""
    body = {
        "operation": "download",
        "transfers": ["basic"],
        "objects": [{"oid": content.oid, "size": content.size} for content in wanted],
        "hash_algo": "sha256",
    }
    address = fetching.checked(f"{endpoint.address.rstrip('/')}/objects/batch")
    headers = {"Accept": TYPE, "Content-Type": TYPE} | own
    with fetching.requested(address, "POST", headers, ending, json.dumps(body).encode()) as response:
        if response.status != 200:
            raise CloneFailed(_refused(endpoint, response.status, credential))
        raw = fetching.at_most(ANSWER_BYTES, response, ending)
    try:
        told = json.loads(raw)
        if told.get("transfer", "basic") != "basic":
            raise CloneFailed(f"{endpoint.host} has no transfer of git-lfs that Handrail speaks (basic).")
        asked, kept = {content.oid for content in wanted}, ("error", "authenticated")
        return {
            each["oid"]: {name: each[name] for name in kept if name in each}
            | {"actions": {"download": (each.get("actions") or {}).get("download")}}
            for each in told["objects"]
            if each["oid"] in asked
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise CloneFailed(f"The answer of {endpoint.host} is none of git-lfs.") from None


def _refused(endpoint: Git, status: int, credential: Credential) -> str:
    if status in (401, 403):
        return f"{credentials.what_happened(endpoint, credential)} (git-lfs, status {status})"
    if status == 404:
        return f"{endpoint.host} has no git-lfs files for this repository ({status})."
    return f"The git-lfs API of {endpoint.host} answered {status}."


def _action(told, endpoint: Git, own: dict[str, str]) -> tuple[Git, dict[str, str]]:
    """Return the address of a content, and the headers to ask it with."""
    try:
        if error := (told or {}).get("error"):
            raise CloneFailed(f"{endpoint.host} says: {str(error.get('message', ''))[:200]} ({error.get('code')})")
        action = told["actions"]["download"]
        headers = {str(name): str(value) for name, value in (action.get("header") or {}).items()}
        place = fetching.checked(action["href"])
    except (KeyError, TypeError, AttributeError):
        raise CloneFailed(f"{endpoint.host} does not have its content.") from None
    fetching.refuse_downgrade(endpoint, place)
    is_signed = "authorization" in map(str.lower, headers) or told.get("authenticated") is True
    return place, headers if is_signed or not fetching.is_same_origin(endpoint, place) else headers | own
