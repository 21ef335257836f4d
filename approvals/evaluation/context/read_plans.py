"""How a read at the code host is run for the agent: at which remote that a person has seen, with which words.

A read is run outside the box, with the person's credentials, so nothing of the workspace decides what it contacts: the
repository is that of a remote as a person saw it, and is handed to the program in place of the folder.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from approvals.policy.programs.code_host import Read
from workspaces.services import git_remotes

FIRST = ("upstream", "github", "origin")  # the order in which gh chooses among several remotes
# What searches elsewhere than in one repository.
ELSEWHERE = re.compile(r"\b(?:repo|user|org|owner|enterprise|involves|project)\s*:", re.IGNORECASE)
OF_THE_ACCOUNT = ("auth status", "repo list", "search repos")
PLAIN_OPTIONS = ("--json", "-t", "--template")  # which do not search
NEED_BRANCH = ("pr view", "pr diff", "pr checks", "mr view", "mr diff")
LS_REMOTE_FLAGS = ("-q", "-t", "-h", "--heads", "--tags", "--refs", "--symref", "--exit-code", "--quiet", "--branches")
PIPELINES = ("ci status", "ci get", "ci trace")
FETCHED = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
SPECIAL_REF = re.compile(r"(?:refs/)?((?:pull|merge-requests)/\d+/(?:head|merge))|(refs/[\w./-]+)")


class NotRead(Exception):
    """The read is not run outside the box; the message says why, as the end of a sentence."""


@dataclass(frozen=True)
class Repository:
    """The folder's own repository, with its remotes as a person saw them and as they are now: {name: URL}."""

    top: Path
    seen: dict
    now: dict

    def url(self, name: str) -> str:
        """Return the URL of a remote that a person has seen. Raise NotRead."""
        if name not in self.seen:
            raise NotRead(f"nobody has confirmed where its remote {name[:60]} leads")
        if self.now.get(name) != self.seen[name]:
            is_now = self.now.get(name, "nowhere that is read")
            raise NotRead(f"its remote {name} leads to {is_now[:200]} now; confirmed was {self.seen[name][:200]}")
        return self.seen[name]

    def default(self) -> str:
        """Return the name of the remote that is meant where none is named. Raise NotRead."""
        names = [name for name in FIRST if name in self.seen] or list(self.seen)
        if not names:
            raise NotRead("nobody has confirmed a remote of this folder")
        return names[0]

    def named(self, wanted: str) -> str:
        """Return HOST/OWNER/REPOSITORY of the seen remote that this is, with or without its host. Raise NotRead."""
        for name, url in self.seen.items():
            known = git_remotes.repository_of(url)
            if known and wanted.lower().removesuffix(".git") in (known, known.partition("/")[2]):
                self.url(name)
                return known
        raise NotRead(f"{wanted[:100]} is not a repository that a person has confirmed for this folder")

    def check_is_in(self, cwd: str, folder: str):
        """Raise NotRead unless a program in `cwd`, told to go to `folder`, is in this repository and no nested one."""
        if not cwd:
            raise NotRead("its folder is not certain before it runs")
        at = Path(os.path.realpath(Path(cwd, folder)))
        while at.is_relative_to(self.top):
            if os.path.lexists(at / ".git"):
                if at == self.top:
                    return
                break
            at = at.parent
        raise NotRead("it runs in another repository than the folder's own")

    def branch(self) -> str:
        """Return the branch that is checked out. Raise NotRead."""
        found = git_remotes.branch(self.top)
        if not found:
            raise NotRead("it does not say of which branch")
        return found


def plan(read: Read, cwd: str, repository: Repository) -> dict:
    """Return how a read is run instead: {argv, program, arguments, env, at, urls, fetch}. Raise NotRead.

    `argv` is what the call names. `fetch` is [[URL, refspecs]] of the remotes that `git fetch` asks, which then runs in
    the box on copies of them.
    """
    repository.check_is_in(cwd, read.folder)
    if read.program != "git" and "--" in read.words:
        raise NotRead("its options end before its words do")
    if read.program != "git" and any(option and text.startswith("-") for _kind, option, text in read.arguments):
        raise NotRead("the value of an option looks like an option")
    planned = {"gh": _gh, "glab": _glab, "git": _git}[read.program](read, repository)
    return {"argv": list(read.words), "program": read.program, "env": {}, "fetch": None, "urls": []} | planned


def _gh(read: Read, repository: Repository) -> dict:
    if read.verb in OF_THE_ACCOUNT:
        raise NotRead("it reads what belongs to the account, not to one repository")
    for kind, option, text in read.arguments:
        if kind in ("text", "field", "typed") and option not in PLAIN_OPTIONS and ELSEWHERE.search(text):
            raise NotRead("it searches in other repositories, too")
    if read.verb == "api":
        return _gh_api(read, repository)
    operands = read.values("operand")
    urls = [text for text in operands if text.startswith("https://")]
    named = read.values("repo") + ["/".join(url.split("/")[2:5]) for url in urls]
    if read.verb == "repo view" and operands and not urls:
        named.append(operands[0])
    at = _only([repository.named(each) for each in named] or [_at_default(repository)])
    arguments = _without_repository(read)
    if read.verb.startswith("search "):
        if not read.values("repo") or any(option == "--owner" for _kind, option, _text in read.arguments):
            raise NotRead("it searches in other repositories, too")
        return {"arguments": [*arguments, f"--repo={at.partition('/')[2]}"], "env": {"GH_HOST": _host(at)}, "at": at}
    if read.verb == "repo view":
        return {"arguments": [*(word for word in arguments if word not in operands), f"https://{at}"], "at": at}
    if not operands and read.verb in NEED_BRANCH:
        arguments.append(repository.branch())
    return {"arguments": [*arguments, f"--repo={at}"], "at": at}


def _gh_api(read: Read, repository: Repository) -> dict:
    (endpoint,) = read.values("endpoint")
    path = endpoint.partition("?")[0].strip("/")
    parts = path.split("/")
    if parts[0] != "repos" or len(parts) < 3 or ".." in parts or "%" in path or "{branch}" in path:
        raise NotRead("it reads more than one repository that a person has confirmed")
    owner_and_name = "/".join(parts[1:3])
    at = _at_default(repository) if owner_and_name in ("{owner}/{repo}", ":owner/:repo") else None
    at = at or repository.named(owner_and_name)
    if any(host not in (_host(at), "") for host in read.values("host")):
        raise NotRead("it names another host")
    return {"arguments": [*read.words[1:], f"--hostname={_host(at)}"], "env": {"GH_REPO": at}, "at": at}


def _glab(read: Read, repository: Repository) -> dict:
    if read.verb in ("api", "repo list") or (read.verb == "repo view" and read.values("operand")):
        raise NotRead("it reads more than one repository that a person has confirmed")
    at = _only([repository.named(text) for text in read.values("repo")] or [_at_default(repository)])
    for text in read.values("operand"):
        if text.startswith("https://"):
            at = _only([at, repository.named("/".join(text.split("/-/")[0].split("/")[2:]))])
    arguments = _without_repository(read)
    if not read.values("operand") and read.verb in NEED_BRANCH:
        arguments.append(repository.branch())
    if read.verb in PIPELINES and not any(option in ("-b", "--branch") for _kind, option, _text in read.arguments):
        arguments.append(f"--branch={repository.branch()}")
    where = [f"https://{at}"] if read.verb == "repo view" else [f"--repo=https://{at}"]
    return {"arguments": [*arguments, *where], "at": at}


def _git(read: Read, repository: Repository) -> dict:
    named = read.values("remote")
    if read.verb == "fetch" and "--all" in read.words:
        names = list(repository.now) or [repository.default()]
    else:
        names = named or [_own_default(repository)]
    urls = [repository.url(name) for name in names]
    at = ", ".join(git_remotes.repository_of(url) or url for url in urls)
    if read.verb == "ls-remote":
        flags = [word for word in read.words if word in LS_REMOTE_FLAGS]
        flags += [f"--sort={text}" for _kind, option, text in read.arguments if option == "--sort"]
        return {"arguments": ["ls-remote", *flags, "--", urls[0], *read.values("refspec")], "at": at, "urls": urls}
    special = [SPECIAL_REF.fullmatch(text.partition(":")[0]) for text in read.values("refspec")]
    more = [
        f"+refs/{found[1]}:refs/{found[1]}" if found[1] else f"+{found[2]}:{found[2]}" for found in special if found
    ]
    return {"arguments": [], "at": at, "urls": urls, "fetch": [[url, [*FETCHED, *more]] for url in urls]}


def _own_default(repository: Repository) -> str:
    return "origin" if "origin" in repository.seen or len(repository.seen) != 1 else next(iter(repository.seen))


def _at_default(repository: Repository) -> str:
    at = git_remotes.repository_of(repository.url(repository.default()))
    if not at:
        raise NotRead("its remote is a folder of this machine")
    return at


def _without_repository(read: Read) -> list[str]:
    """Return the words behind the program without those that name a repository."""
    kept, words = [], list(read.words[1:])
    while words:
        word = words.pop(0)
        if word in ("-R", "--repo"):
            words.pop(0)
        elif not word.startswith(("-R", "--repo=")):
            kept.append(word)
    return kept


def _only(found: list[str]) -> str:
    if len(set(found)) != 1:
        raise NotRead("it names several repositories")
    return found[0]


def _host(at: str) -> str:
    return at.partition("/")[0]
