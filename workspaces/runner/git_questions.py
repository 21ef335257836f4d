"""Asks git about a repository, from inside a sandbox: a program of its own, `python3 -c` with the question as JSON.

{"what": "push", "folder", "remote", "refspecs", "seconds", "root"} → {"remote", "address", "branch", "sends": […]}
{"what": "clean", "folder", "flags", "paths", …} → {"paths": […]}
An answer is a JSON object; {"error": sentence} where there is none. Standard library only, Python 3.9.
"""

import json
import os
import resource
import subprocess
import sys
import time

COMMITS, FILES, REFS, PATHS = 20, 50, 5, 10_000
OUTPUT = 2 << 20
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
# Nothing is run that a repository names, and nothing that stands for a commit in its own books is believed.
SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.attributesFile": "/dev/null",
    "core.commitGraph": "false",
    "core.bigFileThreshold": "1m",
    "core.quotePath": "false",
    "core.pager": "cat",
    "log.showSignature": "false",
    "diff.renames": "false",
    "safe.directory": "*",
    "submodule.recurse": "false",
}


class NoAnswer(Exception):
    pass


class Git:
    def __init__(self, folder, seconds):
        self.folder, self.until = folder, time.monotonic() + seconds
        self.env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": "/home/agent",
            "LANG": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_GRAFT_FILE": "/dev/null",
            "GIT_CONFIG_COUNT": str(len(SETTINGS)),
        }
        for number, (name, value) in enumerate(SETTINGS.items()):
            self.env |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}

    def __call__(self, *args, check=True):
        """What git prints; None when it fails and may."""
        left = self.until - time.monotonic()
        if left <= 0:
            raise NoAnswer("git did not answer in time.")
        try:
            done = subprocess.run(
                ["git", *args],
                cwd=self.folder,
                env=self.env,
                capture_output=True,
                timeout=left,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            raise NoAnswer("git did not answer in time.") from None
        except FileNotFoundError:
            raise NoAnswer("git is not installed on this host.") from None
        if done.returncode:
            if check:
                words = done.stderr.decode("utf-8", "replace").strip().splitlines()
                raise NoAnswer(f"git says: {words[-1][:300] if words else 'nothing'}")
            return None
        return done.stdout[:OUTPUT].decode("utf-8", "surrogateescape")

    def line(self, *args):
        """One line, or "" when git has none."""
        return (self(*args, check=False) or "").strip()


def push(git, question):
    """Where a push would go and what it would take there, by what the repository itself knows of the other side."""
    outside = alternates(git, question["root"])
    branch = git.line("symbolic-ref", "--short", "-q", "HEAD")
    remote = question.get("remote") or configured_remote(git, branch)
    known = remote in git.line("remote").splitlines()
    addresses = git.line("remote", "get-url", "--push", "--all", remote).splitlines() if known else []
    refspecs = question.get("refspecs") or default_refspecs(git, remote, branch)
    return {
        "remote": remote,
        "known": known,
        "addresses": addresses[:REFS],
        "branch": branch,
        "outside": outside,
        "sends": [send(git, remote if known else None, spec) for spec in refspecs[:REFS]],
        "more": max(0, len(refspecs) - REFS),
    }


def alternates(git, root):
    """True when objects are looked for outside the tree, where nothing is looked at here."""
    objects = git.line("rev-parse", "--git-path", "objects/info/alternates")
    try:
        with open(os.path.join(git.folder, objects), errors="surrogateescape") as file:
            named = [line.strip() for line in file.read(1 << 16).splitlines() if line.strip()]
    except OSError:
        return False
    base = os.path.dirname(os.path.dirname(os.path.join(git.folder, objects)))
    return any(not os.path.realpath(os.path.join(base, name)).startswith(root + "/") for name in named)


def configured_remote(git, branch):
    names = [f"branch.{branch}.pushRemote", "remote.pushDefault", f"branch.{branch}.remote"]
    return next((found for name in names if (found := git.line("config", "--get", name))), "origin")


def default_refspecs(git, remote, branch):
    if specs := git.line("config", "--get-all", f"remote.{remote}.push").splitlines():
        return specs
    merge = git.line("config", "--get", f"branch.{branch}.merge")
    if merge and git.line("config", "--get", "push.default") in ("upstream", "tracking"):
        return [f"{branch}:{merge}"]
    return [branch] if branch else []


def send(git, remote, spec):
    """What one refspec takes there: {"to", "count", "commits", "files", "lost", "new"} or {"to", "says"}."""
    forced, spec = spec.startswith("+"), spec.removeprefix("+")
    source, _, target = spec.partition(":")
    target = (target or source).removeprefix("refs/heads/")
    if target in ("HEAD", "@"):
        target = git.line("symbolic-ref", "--short", "-q", "HEAD") or target
    told = {"to": target, "forced": forced}
    if ":" in spec and not source:
        return told | {"says": "removed there"}
    if "*" in spec or not source:
        return told | {"says": "more than one branch; which ones is not known before it runs"}
    sha = git.line("rev-parse", "--verify", "--quiet", "--end-of-options", f"{source}^{{commit}}")
    if not sha:
        return told | {"says": f"{source} names no commit that can be read here"}
    there = git.line("rev-parse", "--verify", "--quiet", f"refs/remotes/{remote}/{target}") if remote else ""
    known = [there] if there else [f"--remotes={remote}"] if remote else ["--remotes"]
    new = ["--not", *known]
    told |= {"tracked": bool(there), "count": int(git("rev-list", "--count", sha, *new))}
    told["lost"] = int(git("rev-list", "--count", there, f"^{sha}")) if there else 0
    return told | {"commits": commits(git, sha, new), "files": files(git, sha, there, new)}


def commits(git, sha, new):
    printed = git("log", "-z", f"--max-count={COMMITS}", "--no-show-signature", "--format=%H%x1f%an%x1f%s", sha, *new)
    rows = (row.split("\x1f", 2) for row in printed.split("\0") if row)
    return [{"sha": row[0], "by": row[1][:100], "subject": row[2][:200]} for row in rows if len(row) == 3]


def files(git, sha, there, new):
    """[[path, lines added, lines removed]] of the first files, None for binary ones, and how many there are."""
    base = git.line("merge-base", there, sha) if there else ""
    if not base:
        first = git("rev-list", "--topo-order", sha, *new).split()[-1:]
        base = git.line("rev-parse", "--verify", "--quiet", f"{first[0]}^") if first else sha
    printed = git("diff", "--numstat", "-z", "--no-ext-diff", "--no-textconv", base or EMPTY_TREE, sha)
    rows = [row.split("\t", 2) for row in printed.split("\0") if row.count("\t") >= 2]
    count = [[int(n) if n.isdigit() else None for n in row[:2]] for row in rows]
    return {
        "count": len(rows),
        "additions": sum(added or 0 for added, _ in count),
        "deletions": sum(removed or 0 for _, removed in count),
        "first": [[row[2], *count[n]] for n, row in enumerate(rows[:FILES])],
    }


def clean(git, question):
    """The paths that `git clean` would remove, relative to the tree."""
    flags = question["flags"]
    args = ["ls-files", "-z", "--others", "--directory"]
    args += [] if "x" in flags else ["--exclude-standard"]
    args += ["--ignored"] if "X" in flags else []
    found = [path for path in git(*args, "--", *question["paths"]).split("\0") if path]
    kept = [path for path in found if "d" in flags or not path.endswith("/")]
    prefix = os.path.relpath(git.folder, question["root"])
    return {"paths": [os.path.normpath(os.path.join(prefix, path)) for path in kept[:PATHS]], "count": len(kept)}


def main():
    question = json.loads(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_DATA, (512 << 20, 512 << 20))
    folder = os.path.join(question["root"], question.get("folder") or ".")
    git = Git(os.path.normpath(folder), question["seconds"])
    try:
        if not os.path.isdir(git.folder):
            raise NoAnswer("The folder is not there.")
        if git("rev-parse", "--git-dir", check=False) is None:
            raise NoAnswer("There is no git repository that can be read inside the workspace.")
        answer = {"push": push, "clean": clean}[question["what"]](git, question)
    except NoAnswer as error:
        answer = {"error": str(error)}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
