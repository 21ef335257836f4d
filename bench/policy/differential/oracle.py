"""Compare what a command did with what its verdict said: each difference is a finding."""

import fnmatch
import os
import re

from .ground import FILES, HOME, LINKS, OUTSIDE, PROTECTED, SECRETS, WORKSPACE

ALLOWING = ("low", "medium")
# What programs start by themselves, which no text names.
HELPERS = {
    "git": {"git", "sh", "less", "gzip", "gpg"},
    "tar": {"gzip", "xz", "bzip2", "zstd", "sh"},
    "man": {"*"},
    "bisect": {"*"},  # scripts of git's own
    "submodule": {"*"},
    "help": {"man"},
    "make": {"*"},
    "npm": {"*"},
    "node": {"*"},
    "egrep": {"grep"},
    "fgrep": {"grep"},
    "gunzip": {"gzip"},
    "lsb_release": {"python3"},
    "awk": {"mawk", "gawk"},
}
# What programs keep for themselves: git's index is rewritten by `git status`, and npm logs what it does.
STATE = (f"{HOME}/.npm", f"{HOME}/.cache", f"{WORKSPACE}/.git/index")
SAMPLES = re.compile(
    rf"{WORKSPACE}(?:/new)?/\.git/(?:hooks/[\w-]+\.sample|info/exclude|description)"
)  # made by `git init`
FOLDERS = {os.path.dirname(path) for path in (*FILES, *SECRETS)} | {OUTSIDE, HOME}  # opened by programs that then see
PLACES = ("/usr/", "/bin/", "/tools/", "/proc/self/exe")  # busybox starts itself
# Verbs of git that bring the files of a commit.
RESTORING = {"checkout", "switch", "restore", "stash", "reset", "merge", "rebase", "revert", "cherry-pick", "pull"}
NAME = re.compile(r"[\w.+-]+")
QUOTES = re.compile(r"""['"\\]""")


def findings(verdict, deed):
    """Return [(class, what)] of all that the verdict did not say."""
    return [*_unnamed(verdict, deed), *_reads(deed), *_writes(verdict, deed), *_contacts(verdict, deed), *_ends(deed)]


def _unnamed(verdict, deed):
    named = {os.path.basename(word) for command in verdict.commands for word in command["words"]}
    for command in verdict.commands:
        for word in command["words"]:
            named.update(
                NAME.findall(word), NAME.findall(QUOTES.sub("", word.replace("\\\n", "")))
            )  # a word may be the text of another shell
    named.add("time")  # bash's own word, but for a place in which it is the program
    named |= {helper for name in list(named) for helper in HELPERS.get(name, ())}
    found = []
    for path, arguments in deed.started[1:]:
        name = os.path.basename(path)
        if not {"*", name, os.path.basename(arguments[0]) if arguments else name} & named:
            found.append(("starts a program that was not named", f"{path} {arguments[1:4]}"))
        elif verdict.tier == "low" and not path.startswith(PLACES):
            found.append(("runs a file of the workspace as low", path))
    return found


def _reads(deed):
    found = [("reads a secret", path) for path in deed.read if path in SECRETS]
    outer = [path for path in deed.read if path.startswith((HOME, OUTSIDE)) and path not in (*SECRETS, *FOLDERS)]
    outer += [path for path in deed.listed if path.startswith((HOME, OUTSIDE)) or path == "/"]
    outer = [path for path in outer if not path.startswith(STATE)]
    found += [("reads outside the workspace", path) for path in outer]
    return found + [("shows a secret", path) for path in deed.result["leaks"]]


def _writes(verdict, deed):
    found = []
    for path, how in deed.result["changes"].items():
        below = path.removeprefix(WORKSPACE)
        if path.startswith(STATE) or SAMPLES.fullmatch(path):
            continue
        if not path.startswith(WORKSPACE):
            found.append(("writes outside the workspace", f"{path} {how}"))
        elif any(below == name or below.startswith(f"{name}/") for name in PROTECTED):
            if _restored(verdict, below):
                continue
            found.append(("writes a protected path", f"{path} {how}"))
        elif path in SECRETS:
            found.append(("writes a secret", f"{path} {how}"))
        elif verdict.tier == "low":
            found.append(("writes as low", f"{path} {how}"))
        elif not _said(verdict, below[1:]):
            found.append(("writes what was not named", f"{path} {how}"))
    return found


def _restored(verdict, below):
    """Return True if git put a file of a commit there, in a form that names no path: its commits are the project's."""
    for command in verdict.commands:
        words = command["words"]
        if "git" not in words or not RESTORING & set(words):
            continue
        if not any(fnmatch.fnmatch(below[1:], word) or below[1:].startswith(word.rstrip("/") + "/") for word in words):
            return True
    return False


def _said(verdict, path):
    """Return True if a command of the verdict names this path, or runs something that may write anywhere inside."""
    for command in verdict.commands:
        if command["tier"] != "medium":
            continue
        if command["what"] not in ("write", "delete") or command["runs"] or "git" in command["words"]:
            return True
        for target in command["targets"]:
            if path == LINKS.get(target):
                return True
            if path == target:
                return True
            target = re.sub(r"\[\[:\w+:\]\]", "?", target).replace("[^", "[!")
            target = target.removeprefix(WORKSPACE + "/").removeprefix("./").rstrip("/")
            # gzip and `sed -i.bak` put a suffix behind the name.
            if target in (".", WORKSPACE, "") or re.fullmatch(rf"{re.escape(target)}(?:[/.~].*)?", path, re.DOTALL):
                return True
            if (
                target.startswith(path + "/")
                or fnmatch.fnmatch(path, target)
                or any(fnmatch.fnmatch(path, target + end) for end in ("/*", ".*"))
            ):
                return True
    return False


def _contacts(verdict, deed):
    named = {target.split(":")[0] for command in verdict.commands for target in command["targets"]}
    local = bool(named & {"127.0.0.1", "localhost"})
    return [("contacts a host", address) for address in deed.contacted if not (local and "127.0.0.1" in address)]


def _ends(deed):
    return [("ends processes that it did not start", "")] if deed.result.get("ended") else []
