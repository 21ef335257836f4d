"""Which files of a folder `push` sends, as git tells it: it reads each .gitignore, with or without a repository."""

import os
import subprocess
import tarfile
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path

from handrail_client.errors import HandrailError

PROJECT_FILE = "handrail.toml"
LISTED = ("ls-files", "-z", "--exclude-standard")


def pack(folder: Path, archive, ignore: Iterable[str] = ()) -> None:
    """Write the folder's files as a tar, without `.git`, what git ignores and what the patterns match.

    `ignore`: patterns as in a .gitignore; they hold for files that git tracks as well. Those of `ignore` in the
    folder's handrail.toml hold for the others.
    """
    if not folder.is_dir():
        raise HandrailError(f"There is no folder {folder}.")
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted(_names(folder, list(ignore))):
            path = folder / name
            if path.is_symlink() or path.is_file():
                tar.add(path, arcname=name, recursive=False, filter=_without_owner)


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uname = member.gname = ""
    return member


def _names(folder: Path, ignore: list[str]) -> set[str]:
    own = _own_patterns(folder)
    try:
        tracked, others = _known_to_git(folder)
        others -= _matched(own, others)
        return (tracked | others) - _matched(ignore, tracked | others)
    except FileNotFoundError:
        return _without_git(folder, [*own, *ignore])


def _own_patterns(folder: Path) -> list[str]:
    file = folder / PROJECT_FILE
    if file.is_symlink() or not file.is_file():
        return []
    try:
        patterns = tomllib.loads(file.read_text(encoding="utf-8")).get("ignore", [])
    except ValueError as error:
        raise HandrailError(f"{file} is not TOML in UTF-8: {error}.") from None
    if not isinstance(patterns, list) or not all(isinstance(line, str) for line in patterns):
        raise HandrailError(f'{file}: ignore: write a list of patterns, such as ["node_modules/"].')
    return patterns


def _known_to_git(folder: Path) -> tuple[set[str], set[str]]:
    """Return the paths that git tracks, and the others that it does not ignore, also of repositories inside."""
    tracked: set[str] = set()
    others: set[str] = set()
    if _has_repository(folder):
        tracked = _split(_git(folder, *LISTED, "--cached"))
        others = _split(_git(folder, *LISTED, "--others"))
    else:
        with tempfile.TemporaryDirectory() as empty:
            _git(Path(empty), "init", "--quiet", "--bare", "--template=", ".")
            others = _split(_git(folder, f"--git-dir={empty}", "--work-tree=.", *LISTED, "--others"))
    for name in [*tracked, *others]:  # submodules and other repositories are listed as folders
        inner = folder / name
        if inner.is_dir() and not inner.is_symlink():
            found = _known_to_git(inner) if (inner / ".git").exists() else (set(), set())
            for known, inside in zip((tracked, others), found, strict=True):
                known.discard(name)
                known |= {os.path.join(name, path) for path in inside}
    return tracked, others - tracked


def _has_repository(folder: Path) -> bool:
    """Return whether the folder is, or is in, the working tree of a repository that does not ignore it."""
    if (folder / ".git").exists():
        return True
    if _run(folder, "rev-parse", "--is-inside-work-tree").stdout.strip() != b"true":
        return False
    real = folder.resolve()
    return _run(real.parent, "check-ignore", "--quiet", "--", f"./{real.name}").returncode == 1


def _matched(patterns: list[str], names: set[str]) -> set[str]:
    """Return those of the names that the patterns match, or that are in a folder that they match."""
    if not patterns or not names:
        return set()
    with tempfile.TemporaryDirectory() as empty:
        folder = Path(empty)
        _git(folder, "init", "--quiet", "--template=", ".")
        (folder / ".git" / "info").mkdir()
        (folder / ".git" / "info" / "exclude").write_bytes(os.fsencode("\n".join(patterns)) + b"\n")
        asked = b"\0".join(b"./" + os.fsencode(name) for name in sorted(names))  # so that none is read as magic
        found = _run(
            folder, "-c", f"core.excludesFile={os.devnull}", "check-ignore", "--no-index", "-z", "--stdin", stdin=asked
        )
    if found.returncode > 1:
        raise HandrailError(f"git can't read the patterns: {os.fsdecode(found.stderr).strip()}")
    return {name.removeprefix("./") for name in _split(found.stdout)}


def _without_git(folder: Path, patterns: list[str]) -> set[str]:
    """Return all paths of a folder without ignore patterns, where git is not installed."""
    found = set()
    for root, folders, files in os.walk(folder):
        if patterns or ".gitignore" in files or ".git" in folders:
            raise HandrailError("git is not installed here: without it, push can't tell what is ignored.")
        links = [name for name in folders if Path(root, name).is_symlink()]
        found |= {str(Path(root, name).relative_to(folder)) for name in [*files, *links]}
    return found


def _git(folder: Path, *words: str) -> bytes:
    done = _run(folder, *words)
    if done.returncode != 0:
        raise HandrailError(f"git can't list {folder}: {os.fsdecode(done.stderr).strip()}")
    return done.stdout


def _run(folder: Path, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess:
    """Run git in the folder, whatever repository the environment names, as a hook's does."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(["git", *words], cwd=folder, env=env, input=stdin, capture_output=True, check=False)


def _split(listed: bytes) -> set[str]:
    return {os.fsdecode(name) for name in listed.split(b"\0") if name}
