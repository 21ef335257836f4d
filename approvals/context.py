"""What the policy is told of the world: the symlinks on the way to a call's paths, and whose home `~` is."""

import json
import posixpath
from dataclasses import dataclass, field
from pathlib import Path

from approvals.calls import beneath, root_of
from approvals.policy.rules import FILE_READERS, FILE_WRITERS
from approvals.policy.tools import PATH_KEYS
from approvals.policy.words import OPAQUE
from dashboard.problems import Problem
from workspaces.runner import client

SECONDS = 1.5  # a runner that is busier than that is one that does not answer
MOST_PATHS = 500
HOME = "/home/agent"
AWAY = "Waits because the runner does not answer, so nobody knows where a symlink on the way to its files would lead."


@dataclass(frozen=True)
class Context:
    """`known` goes to the policy; `away` says that the files could not be looked at."""

    known: dict = field(default_factory=dict)
    away: bool = False


def home_of(workspace) -> str:
    """Where `~` leads for the workload: in a user's own folder to the user's own home."""
    return str(Path.home()) if workspace is not None and workspace.source.get("path") else HOME


def context_for(
    tool: str, arguments: dict, cwd: str | None, workspace, commands: list, mcp_server: str = ""
) -> Context:
    """What is known about one call; `commands` are the entries of a first verdict on it."""
    known = {"mcp_server": mcp_server} if mcp_server else {}
    if workspace is None:
        return Context(known)
    root = root_of(workspace)
    paths = _paths(tool, arguments, cwd or root, root, commands)
    if not paths:
        return Context(known)
    body = json.dumps({"paths": paths[:MOST_PATHS], "root": root, "seconds": SECONDS * 0.8}).encode()
    try:
        told = client.ask("POST", f"/workspaces/{workspace.pk}/links", body=body, timeout=SECONDS)
    except Problem:
        return Context(known, away=True)
    is_whole = told["complete"] and len(paths) <= MOST_PATHS
    return Context(known | ({"symlinks": told["links"]} if told["links"] else {}), away=not is_whole)


def changes_files(tool: str, commands: list) -> bool:
    return tool in FILE_WRITERS or any(step.get("what") in ("write", "delete") for step in commands)


def _paths(tool: str, arguments: dict, cwd: str, root: str, commands: list) -> list[str]:
    """Each path that the call may mean, relative to the root and as written: a link may stand before a `..`."""
    if tool in FILE_WRITERS or tool in FILE_READERS:
        named = [arguments[key] for key in PATH_KEYS if isinstance(arguments.get(key), str)]
        return list(dict.fromkeys(filter(None, (_below(path, cwd, root) for path in named))))
    if tool != "Bash":
        return []
    found, folders = [], [cwd]
    for step in commands:
        words = [part for word in step["words"] for part in (word, word.partition("=")[2]) if part]
        if words[:1] in (["cd"], ["pushd"]) and len(words) > 1:
            folders.append(posixpath.join(folders[-1], words[1]))
        texts = [text for text in (*words[1:], *step["targets"]) if OPAQUE not in text and "\0" not in text]
        found += [_below(text, folder, root) for text in texts for folder in (*folders, root)]
    return list(dict.fromkeys(filter(None, found)))


def _below(path: str, cwd: str, root: str) -> str | None:
    """The path behind the root, not normalised; None where the text alone leads out of it."""
    if beneath(path, cwd, root) is None:
        return None
    whole = posixpath.join(cwd, path)
    return whole[len(root) :].lstrip("/") if (whole + "/").startswith(root.rstrip("/") + "/") else None
