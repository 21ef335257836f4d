"""Push a bundle of a workspace's commits to its source, and ask the source for its branches."""

import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from workspaces.provisioning.git import output
from workspaces.provisioning.git.addresses import Git
from workspaces.provisioning.git.credentials import NONE, Credential
from workspaces.provisioning.git.explained import explained, explains
from workspaces.provisioning.git.running import CloneFailed, contacted, environment_for, git_in, pin

MAX_MISSING = 50  # commits that are listed
NAMED = 3  # of them, in the message
MAX_FETCHED = 50  # branches
# Oddities of old commits, which hosts take: how a tree writes modes, and who made a commit when.
ODD = "badFilemode zeroPaddedFilemode badTimezone badDate badDateOverflow zeroPaddedDate missingSpaceBeforeDate badName"
ODD += " badEmail missingEmail missingNameBeforeEmail missingSpaceBeforeEmail"
IGNORED = [option for name in ODD.split() for option in ("-c", f"fetch.fsck.{name}=ignore")]
CHECKED = ("-c", "fetch.fsckObjects=true", *IGNORED)
FETCH = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")
TRIES = 3  # pushes, while others push commits that HEAD has
LOOKS = 5  # further ones, after a connection ended while the host may still be taking the push
LOOK_SECONDS = 3.0  # before each of them
_NOT_BEGUN = re.compile(  # what git says before it sends anything, or when the host answered that it takes nothing
    r"fatal: unable to access '|repository '[^']*' not found|does not appear to be a git repository"
    r"|returned error: 4(?!08)[0-9]{2}\b|Could not resolve host|Connection refused"
)
_UNBUNDLED = "did not send all necessary objects"
_CUT = re.compile(r"^broken link from +commit ([0-9a-f]+)$", re.MULTILINE)


@dataclass(frozen=True)
class Pushed:
    """A push that arrived. `before`: the branch's commit until then, "" if there was none."""

    branch: str
    sha: str
    before: str
    remote: list[str] = field(default_factory=list)  # what the host said

    @property
    def as_json(self) -> dict:
        return {"branch": self.branch, "sha": self.sha, "from": self.before}


class Push:
    """A push of the HEAD of the bundle in the folder `scratch` to a branch of the source, never by force.

    Its steps are `unpack`, `look` and `send`; each raises CloneFailed. The bundle comes from a workspace and is
    untrusted: git names its objects by their content, and it carries no git configuration.
    """

    def __init__(self, scratch: Path, source: Git, branch: str, credential: Credential = NONE):
        self.bundle, self.repository = scratch / "bundle", scratch / "repository"
        self.source, self.branch = source, branch
        self.env = environment_for(source, credential)
        self.sha = ""  # of HEAD, once unpacked
        self.there: dict[str, str] = {}  # the source's branches, once looked at

    @property
    def before(self) -> str:
        """The branch's commit at the source when it was looked at, "" if it had none."""
        return self.there.get(self.branch, "")

    def unpack(self) -> None:
        """Unpack the bundle into a repository beside it."""
        self._create(_object_format(self.bundle))
        fetch = (*CHECKED, "fetch", "--quiet", "../bundle", "HEAD:refs/heads/pushed")
        with git_in(self.repository) as git:
            try:
                git(*fetch)
            except CloneFailed as error:
                if _UNBUNDLED not in error.said or not (commits := _cut_off(git)):
                    raise
                (self.repository / "shallow").write_text("".join(f"{commit}\n" for commit in commits))
                git(*fetch)
            self.sha = git("rev-parse", "refs/heads/pushed")

    def fetch_branches(self) -> None:
        """Ask the source for its branches."""
        with git_in(self.repository) as git:
            try:
                told = git(
                    *pin(self.source), "ls-remote", "--quiet", "--heads", "--", contacted(self.source), env=self.env
                )
            except CloneFailed as error:
                raise explained(error, self.source) from None
        rows = (line.split("\t", 1) for line in told.split("\n") if "\t" in line)
        self.there = {name.removeprefix("refs/heads/"): sha for sha, name in rows}

    def send(self) -> Pushed:
        """Push the commit. `more["uncertain"]` of the error says that it may have arrived all the same."""
        with git_in(self.repository) as git:
            for _ in range(TRIES):
                before = self.before
                try:
                    return self._send(git)
                except CloneFailed as error:
                    failed = error
                if failed.code == "token":
                    raise failed
                self._check_after(failed)
                if self.before == self.sha or (may_be_sent(failed) and self._has_arrived(git, failed, before)):
                    return Pushed(self.branch, self.sha, before)
                if self.before == before or not self._has(git, self.before):
                    break
            raise failed if not self.before or self._has(git, self.before) else self._behind(git)

    def find(self, sha: str, before: str) -> bool:
        """Return whether the branch has a commit by now that was pushed when the branch was at `before`."""
        self.sha = sha
        self._create("sha256" if len(sha) == 64 else "")
        self.fetch_branches()
        self._wait_for_branch(before)
        with git_in(self.repository) as git:
            return self._arrived(git, before)

    def may_arrive(self, before: str) -> bool:
        """Return whether a host may still be taking a push for which the branch was at `before`.

        At a local source nothing is left of a push that ended: its processes are git's own here.
        """
        return self.source.scheme != "file" and self.before == before != self.sha

    def not_yet(self) -> str:
        """Return sentences for a push that may still arrive."""
        at = f"still at {self.before[:12]}" if self.before else "not there yet"
        return (
            f"{self.branch} is {at}, but the source may still be taking the push. Whether it arrives is unknown: "
            "look at the branch there before you push again."
        )

    def _wait_for_branch(self, before: str) -> None:
        """Look some times more while the branch is where it was and the push may still arrive."""
        for _ in range(LOOKS):
            if not self.may_arrive(before):
                return
            time.sleep(LOOK_SECONDS)
            self.fetch_branches()

    def _has_arrived(self, git: Callable[..., str], failed: CloneFailed, before: str) -> bool:
        """Return whether the commit is there after a connection that ended. CloneFailed if that stays unknown."""
        with _or_unknown(failed):
            self._wait_for_branch(before)
            if self._arrived(git, before):
                return True
        if self.may_arrive(before):
            raise CloneFailed(f"{failed} {self.not_yet()}", said=failed.said, more={**failed.more, "uncertain": True})
        return False

    def _arrived(self, git: Callable[..., str], before: str) -> bool:
        """Return whether the branch has the commit, also below what others pushed since. Raise CloneFailed."""
        if self.before in ("", self.sha, before):
            return self.before == self.sha
        self._fetch(git)
        return git("rev-list", "--count", f"{self.before}..{self.sha}", check=False) == "0"

    def _create(self, object_format: str) -> None:
        self.repository.mkdir(exist_ok=True)
        named = [f"--object-format={object_format}"] if object_format else []  # which git before 2.29 does not know
        with git_in(self.repository) as git:
            git("init", "--quiet", "--bare", "--template=", *named)

    def _send(self, git: Callable[..., str]) -> Pushed:
        words: list[str] = []
        shown = ("-c", f"core.abbrev={len(self.sha)}", *pin(self.source))
        what = (contacted(self.source), f"{self.sha}:refs/heads/{self.branch}")
        try:
            told = git(*shown, "push", "--porcelain", "--no-progress", *what, env=self.env, heard=words)
        except CloneFailed as error:
            flag, summary = self._status(error.told)
            if flag != "!" or summary.startswith("[remote failure]"):
                raise explained(error, self.source) from None
            raise self._refused(error, summary) from None
        flag, summary = self._status(told)
        if not flag:
            raise CloneFailed("git did not say whether the source took the push.", said=words[0], told=told)
        before = {"*": "", "=": self.sha}.get(flag, summary.partition("..")[0])
        return Pushed(self.branch, self.sha, before, output.remote_lines(words[0]))

    def _status(self, told: str) -> tuple[str, str]:
        """Return flag and summary of the branch's line, as `git push --porcelain` writes it; empty without one."""
        ref = re.escape(f":refs/heads/{self.branch}")
        # pattern: begins at the starts of lines alone
        found = re.search(rf"^([ +*!=-])\t[^\t\n]*{ref}\t(.*)$", told, re.MULTILINE)
        return (found[1], found[2]) if found else ("", "")

    def _refused(self, error: CloneFailed, summary: str) -> CloneFailed:
        """Return the error for a branch that the host, or git for it, did not take."""
        remote = output.remote_lines(error.said)
        reason = re.match(r"[^(]*\((.*)\)$", summary)
        told = f"The repository refused {self.branch}"
        told += f" ({output.clean(reason[1])})" if reason else ""
        told += f": {output.joined(remote)}" if remote else "."
        other = next((name for name in self.there if _clash(name, self.branch)), "")
        if other:
            told += f" The branch {output.clean(other)} is there, and git can't keep both names."
        if reason and reason[1].startswith("shallow update"):
            told += " The workspace has only a part of the history (a shallow clone), and the rest is not there."
        return CloneFailed(told, said=error.said, code="refused", more={"remote": remote})

    def _check_after(self, failed: CloneFailed) -> None:
        """Look again after a push that failed. Raise CloneFailed if the source does not answer."""
        if failed.code == "refused":
            with suppress(CloneFailed):
                self.fetch_branches()
                return
            raise failed
        with _or_unknown(failed):
            self.fetch_branches()

    def _has(self, git: Callable[..., str], tip: str) -> bool:
        """Return whether HEAD has a commit of the source."""
        return git("rev-list", "--count", f"{self.sha}..{tip}", check=False) == "0"

    def _behind(self, git: Callable[..., str]) -> CloneFailed:
        """Return the error that names the commits of the branch that HEAD lacks."""
        rows, count = [], 0
        with suppress(CloneFailed):
            self._fetch(git)
            lacking = f"{self.sha}..{self.before}"
            form = ("-c", "i18n.logOutputEncoding=UTF-8", "log", "--topo-order", "--format=%H %s")
            listed = git(*form, f"--max-count={MAX_MISSING}", lacking).split("\n")
            pairs = (row.partition(" ") for row in listed if row)
            rows = [{"sha": sha, "subject": output.clean(subject, 200)} for sha, _, subject in pairs]
            count = int(git("rev-list", "--count", lacking))
        named = ", ".join(f"{row['sha'][:7]} {row['subject']}".strip() for row in rows[:NAMED])
        more = f" and {count - NAMED:,} more" if count > NAMED else ""
        commits = f"{count:,} commit{'' if count == 1 else 's'} that {'is' if count == 1 else 'are'} not here"
        told = (
            f"{self.branch} has {commits} ({named}{more})." if rows else f"{self.branch} has commits that are not here."
        )
        return CloneFailed(told, code="behind", more={"missing": rows, "missing_count": count})

    def fetch_moved(self, default: str) -> bool:
        """Fetch the branches of the source that moved on beyond what is here; return whether there were any.

        Of many only the first: the branch itself, the source's default one, then others.
        """
        first = (self.branch, default)
        with git_in(self.repository) as git, suppress(CloneFailed):
            moved = [name for name, tip in self.there.items() if not git("cat-file", "-t", tip, check=False)]
            named = sorted(moved, key=lambda name: name not in first)[:MAX_FETCHED]
            refs = [f"+refs/heads/{name}:refs/moved/{number}" for number, name in enumerate(named)]
            if refs:
                git(*pin(self.source), *FETCH, contacted(self.source), *refs, env=self.env)
                return True
        return False

    def _fetch(self, git: Callable[..., str]) -> None:
        """Fetch the branch as it was looked at. Raise CloneFailed if the source does not give it any more."""
        refs = f"+refs/heads/{self.branch}:refs/there"
        git(*pin(self.source), *FETCH, contacted(self.source), refs, env=self.env)
        git("cat-file", "-e", f"{self.before}^{{commit}}")


def may_be_sent(failed: CloneFailed) -> bool:
    """Return whether the source may have got the push, and be at work on it, though git did not hear the end of it."""
    return failed.code != "refused" and not _NOT_BEGUN.search(failed.said)


@contextmanager
def _or_unknown(failed: CloneFailed) -> Iterator[None]:
    """Say that the end of the push is unknown if the source does not answer now."""
    try:
        yield
    except CloneFailed as error:
        told = f"{failed} Whether the push arrived is unknown, as the source does not answer: {error}"
        raise CloneFailed(told, more={"uncertain": True}) from None


def _clash(name: str, other: str) -> bool:
    return name.startswith(f"{other}/") or other.startswith(f"{name}/")


def _object_format(bundle: Path) -> str:
    """Return the hash function that a bundle's header names, "" for the default."""
    with open(bundle, "rb") as file:
        head = file.read(4096).partition(b"\n\n")[0]
    found = re.search(rb"^@object-format=([a-z0-9]{1,20})$", head, re.MULTILINE)
    return found[1].decode() if found else ""


def _cut_off(git: Callable[..., str]) -> list[str]:
    """Return the commits of an unpacked bundle whose parents it lacks, as in the bundle of a shallow clone."""
    head = git("bundle", "list-heads", "../bundle", "HEAD").partition(" ")[0]
    try:
        git("fsck", "--connectivity-only", "--no-dangling", "--no-reflogs", "--no-progress", head)
    except CloneFailed as error:
        return _CUT.findall(error.told)
    return []


@explains
def default_branch(source: Git, *, credential: Credential = NONE) -> str:
    """Return the branch that the source's HEAD names, "" if it does not say. Raise CloneFailed."""
    with tempfile.TemporaryDirectory() as folder, git_in(Path(folder)) as git:
        env = environment_for(source, credential)
        told = git(*pin(source), "ls-remote", "--symref", "--", contacted(source), "HEAD", env=env)
    named = re.search(r"^ref: refs/heads/(.+)\tHEAD$", told, re.MULTILINE)
    return named[1] if named else ""
