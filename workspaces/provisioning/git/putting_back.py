"""Ask a source where its branches and tags are, and put them back, each only if it is where it was left.

git compares and sets under the source's own lock (`--force-with-lease` with the expected commit), so a push of somebody
else's in between is never lost.
"""

import re
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from workspaces.provisioning.git import output
from workspaces.provisioning.git.addresses import Git
from workspaces.provisioning.git.credentials import NONE, Credential
from workspaces.provisioning.git.explained import explained, explains
from workspaces.provisioning.git.pushing import FETCH, may_be_sent
from workspaces.provisioning.git.running import CloneFailed, contacted, environment_for, git_in, pin

SHORT = 7  # digits of a commit in words


@dataclass(frozen=True)
class Move:
    """Let `ref` be at `to` again, if it is at `if_at`; "" stands for a ref that is not there."""

    ref: str
    to: str
    if_at: str


@explains
def tips(source: Git, refs: list[str], *, credential: Credential = NONE) -> dict[str, str]:
    """Return where these refs of the source are, without those that are not there. Raise CloneFailed."""
    with tempfile.TemporaryDirectory() as folder, git_in(Path(folder)) as git:
        return _tips(git, source, refs, environment_for(source, credential))


@explains
def keep(source: Git, commits: dict[str, str], folder: Path, *, credential: Credential = NONE) -> None:
    """Fetch commits of the source, {ref: commit}, into a bare repository here. Raise CloneFailed.

    Nothing at the source leads to them any more once its refs were forced elsewhere or deleted.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with git_in(folder) as git:
        git("init", "--quiet", "--bare", "--template=", *_object_format(commits.values()))
        env = environment_for(source, credential)
        _fetch(git, source, [(ref, commit) for ref, commit in commits.items() if not _has(git, commit)], env)


@explains
def put_back(source: Git, moves: list[Move], folder: Path, kept: Path, *, credential: Credential = NONE) -> None:
    """Carry out the moves, all or none, in the scratch folder; `kept` may have commits. Raise CloneFailed.

    `more["uncertain"]` of the error says that they may have been carried out all the same.
    """
    env = environment_for(source, credential)
    with git_in(folder) as git:
        wanted = [move.to for move in moves if move.to]
        git("init", "--quiet", "--bare", "--template=", *_object_format(wanted or [move.if_at for move in moves]))
        if kept.exists():
            (folder / "objects" / "info").mkdir(parents=True, exist_ok=True)
            (folder / "objects" / "info" / "alternates").write_text(f"{kept / 'objects'}\n")
        for move in moves:
            if move.to and not _has(git, move.to):
                _fetch(git, source, [(move.ref, move.to)], env)
        _push(git, source, moves, env)


def _tips(git: Callable[..., str], source: Git, refs: list[str], env) -> dict[str, str]:
    told = git(*pin(source), "ls-remote", "--quiet", "--", contacted(source), *refs, env=env)
    rows = (line.split("\t", 1) for line in told.split("\n") if "\t" in line)
    return {name: sha for sha, name in rows if name in refs}


def _fetch(git: Callable[..., str], source: Git, commits: list[tuple[str, str]], env) -> None:
    """Fetch commits by their names, or where the source gives none by name, with the ref that may lead to them."""
    for number, (ref, commit) in enumerate(commits):
        into = f"refs/kept/{commit[:12]}-{number}"
        try:
            git(*pin(source), *FETCH, contacted(source), f"+{commit}:{into}", env=env)
        except CloneFailed as error:
            if error.code == "token":
                raise
            with suppress(CloneFailed):
                git(*pin(source), *FETCH, contacted(source), f"+{ref}:{into}", env=env)
            if not _has(git, commit):
                raise CloneFailed(f"{commit[:12]} is no longer at the source.", said=error.said) from None


def _has(git: Callable[..., str], commit: str) -> bool:
    return bool(git("cat-file", "-t", commit, check=False))


def _push(git: Callable[..., str], source: Git, moves: list[Move], env) -> None:
    leases = [f"--force-with-lease={move.ref}:{move.if_at}" for move in moves]
    how = ["--porcelain", "--no-progress", *(["--atomic"] if len(moves) > 1 else []), *leases]
    try:
        git(*pin(source), "push", *how, contacted(source), *(f"{move.to}:{move.ref}" for move in moves), env=env)
    except CloneFailed as error:
        if failed := _after(git, source, moves, env, error):
            raise failed from None


def _after(git: Callable[..., str], source: Git, moves: list[Move], env, error: CloneFailed) -> CloneFailed | None:
    """Return the error of a push that failed, by what the source has now; None if it arrived all the same."""
    if error.code == "token":
        return error
    unknown = f"{explained(error, source)} Whether it was taken back is unknown: look at the source."
    try:
        now = _tips(git, source, [move.ref for move in moves], env)
    except CloneFailed:
        return CloneFailed(unknown, said=error.said, more={"uncertain": True})
    if all(now.get(move.ref, "") == move.to for move in moves):
        return None
    if moved := [move for move in moves if now.get(move.ref, "") not in (move.if_at, move.to)]:
        return CloneFailed(moved_words(moved[0].ref, now.get(moved[0].ref, ""), moved[0].if_at), code="moved")
    if refused := re.search(r"^!\t[^\t\n]*\t(.*)$", error.told, re.MULTILINE):
        remote = output.remote_lines(error.said)
        said = f": {output.joined(remote)}" if remote else "."
        words = f"The repository refused it ({output.clean(refused[1])}){said}"
        return CloneFailed(words, said=error.said, code="refused", more={"remote": remote})
    return CloneFailed(unknown, said=error.said, more={"uncertain": True}) if may_be_sent(error) else error


def moved_words(ref: str, now: str, expected: str) -> str:
    """Return the sentence for a ref that is not where it was left, in full words."""
    name = ref.removeprefix("refs/heads/").removeprefix("refs/tags/")
    at = f"is at {now[:SHORT]} now" if now else "is not there now"
    left = f"not at {expected[:SHORT]}" if expected else "and was not there"
    return f"{name} {at}, {left}: somebody pushed meanwhile."


def _object_format(commits) -> list[str]:
    """Return the option for `git init`; git before 2.29 does not know it."""
    return ["--object-format=sha256"] if any(len(commit) == 64 for commit in commits) else []
