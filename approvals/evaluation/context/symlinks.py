"""Context for the policy: symlinks on a call's paths, the tree's secrets and tools, its programs, the home for `~`."""

import json
import posixpath
import re
from dataclasses import dataclass, field
from pathlib import Path

from approvals.evaluation.calls import beneath, root_of
from approvals.policy import content_search, patches
from approvals.policy.programs.registry import is_known, runs_project_code
from approvals.policy.rules import FILE_READERS, FILE_WRITERS
from approvals.policy.shell_words import OPAQUE
from approvals.policy.tools import PATH_KEYS
from dashboard.problems import Problem
from workspaces.operations import runner_client

RUNNER_TIMEOUT = 1.5  # for the runner's response; after that it counts as not responding
MAX_PATHS = 500
MAX_PROGRAMS, MAX_WRAPPED = 20, 4  # names that are looked up, and words of a command that may be one
MAX_TRIED = 5_000  # pairs of a word and a folder, as any word of a command may be a path in any folder
HOME = "/home/agent"
# Programs that show what is in the files of a folder, so that it matters whether it holds secrets.
OPENING = re.compile(r"(?<![\w.-])(?:[ef]?grep|rg|ag|ack|diff|cp|tar|zip|fd|find)(?![\w.-])")
PACKAGE_RUNNER = re.compile(r"(?<![\w.-])(?:npx|bunx)\s+([\w.-]+)")
AWAY = "Needs approval: the runner does not answer, so symlinks on the paths of this call can't be checked."


@dataclass(frozen=True)
class Context:
    """`known` is passed to the policy; `away` says that the files could not be inspected."""

    known: dict = field(default_factory=dict)
    away: bool = False


def home_of(workspace) -> str:
    """Return the home directory of the workload: in a connected folder it is the user's own."""
    return str(Path.home()) if workspace is not None and workspace.own_folder else HOME


def context_for(tool: str, arguments: dict, cwd: str | None, workspace, commands: list) -> Context:
    """Return the context of one call; `commands` are the entries of a first verdict on it."""
    if workspace is None:
        return Context()
    root = root_of(workspace)
    paths, all_of_them = _paths(tool, arguments, cwd or root, root, commands)
    more = _also_asked(tool, arguments, cwd or root, root)
    more |= {} if workspace.environment.capabilities.files_need_run else _programs(commands)
    if not paths and not more:
        return Context(away=not all_of_them)
    body = json.dumps({"paths": paths, "root": root, "seconds": RUNNER_TIMEOUT * 0.5} | more).encode()
    try:
        told = runner_client.ask("POST", workspace, "links", body=body, timeout=RUNNER_TIMEOUT)
    except Problem:
        return Context(away=True)
    is_whole = told["complete"] and all_of_them
    known = {"symlinks": told["links"], "secrets": told["secrets"], "installed": told["installed"]}
    known["resolves_to"] = told["resolves_to"]
    return Context({name: value for name, value in known.items() if value}, away=not is_whole)


def _also_asked(tool: str, arguments: dict, cwd: str, root: str) -> dict:
    """Return what else to ask of the tree: its secrets for a search, tools for a package runner."""
    if content_search.prints_lines(tool, arguments):
        return {"secrets": True}
    command = arguments.get("command")
    if tool != "Bash" or not isinstance(command, str):
        return {}
    asked = {"secrets": True} if OPENING.search(command) else {}
    tools = list(dict.fromkeys(PACKAGE_RUNNER.findall(command)))
    folder = _relative_to(".", cwd, root)
    if tools and folder is not None:
        plain = posixpath.normpath(folder)
        asked |= {"tools": tools, "folder": "" if plain == "." else plain}
    return asked


def _programs(commands: list) -> dict:
    """Return the names of programs that the policy judges by what it knows of them, so that they must be these."""
    words = (word for step in commands for word in step["words"][:MAX_WRAPPED])
    names = dict.fromkeys(word for word in words if "/" not in word and is_known(word) and not runs_project_code(word))
    return {"programs": list(names)[:MAX_PROGRAMS]} if names else {}


def changes_files(tool: str, commands: list) -> bool:
    """Return whether the call writes or deletes files."""
    return tool in FILE_WRITERS or any(step.get("what") in ("write", "delete") for step in commands)


def _paths(tool: str, arguments: dict, cwd: str, root: str, commands: list) -> tuple[list[str], bool]:
    """Return ([path that the call may refer to], whether these are all of them).

    Paths are relative to the root and not normalised, as there may be a symlink before a `..`.
    """
    found = {}
    for tried, (path, folder) in enumerate(_named(tool, arguments, cwd, root, commands)):
        if tried >= MAX_TRIED or len(found) > MAX_PATHS:
            return list(found)[:MAX_PATHS], False
        if below := _relative_to(path, folder, root):
            found[below] = None
    return list(found), len(found) <= MAX_PATHS


def _named(tool: str, arguments: dict, cwd: str, root: str, commands: list):
    """Yield each (path, folder that it may be relative to)."""
    if tool == patches.TOOL:
        yield from ((path, cwd) for path in _patched(arguments))
    elif tool in FILE_WRITERS or tool in FILE_READERS:
        yield from ((arguments[key], cwd) for key in PATH_KEYS if isinstance(arguments.get(key), str))
    if tool != "Bash":
        return
    folders = [cwd]
    for step in commands:
        words = [part for word in step["words"] for part in (word, word.partition("=")[2]) if part]
        if words[:1] in (["cd"], ["pushd"]) and len(words) > 1:
            folders.append(posixpath.join(folders[-1], words[1]))
        texts = [text for text in (*words[1:], *step["targets"]) if OPAQUE not in text and "\0" not in text]
        yield from ((text, folder) for text in texts for folder in dict.fromkeys((*folders, root)))


def _patched(arguments: dict) -> list[str]:
    try:
        return [path for edit in patches.read_patch(arguments) for path in edit.paths]
    except patches.BadPatch:
        return []


def _relative_to(path: str, cwd: str, root: str) -> str | None:
    """Return the path relative to the root, not normalised; None if the text alone leads outside it."""
    if beneath(path, cwd, root) is None:
        return None
    whole = posixpath.join(cwd, path)
    return whole[len(root) :].lstrip("/") if (whole + "/").startswith(root.rstrip("/") + "/") else None
