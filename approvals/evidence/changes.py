"""What a call would make of one file: the difference to the file as it is."""

from approvals.calls import beneath, root_of
from approvals.models import Status
from dashboard.problems import Problem
from workspaces import history
from workspaces.diffs import compare

from .findings import Evidence

FILE_BYTES = 512 * 1024


def change_of(tool: str, arguments: dict):
    """(path, old bytes or None → new bytes or None) for a call that changes one file; None for any other call."""
    path = arguments.get("file_path")
    if not isinstance(path, str):
        return None
    if tool == "Write" and isinstance(arguments.get("content"), str):
        return path, lambda old: arguments["content"].encode()
    old_string, new_string = arguments.get("old_string"), arguments.get("new_string")
    if tool == "Edit" and isinstance(old_string, str) and isinstance(new_string, str):
        return path, lambda old: _replaced(old, old_string.encode(), new_string.encode(), arguments.get("replace_all"))
    return None


def _replaced(old: bytes | None, before: bytes, after: bytes, everywhere) -> bytes | None:
    """The file after the edit; None when the edit does not fit it."""
    if not before:
        return after if not old else None
    if old is None or before not in old or (not everywhere and old.count(before) > 1):
        return None
    return old.replace(before, after)


def file_evidence(action, call: dict, path: str, change, *, patience) -> Evidence:
    workspace, cwd, arguments = action.workspace, call["cwd"], call["arguments"]
    relative = beneath(path, cwd, root_of(workspace)) if workspace and cwd else None
    if not relative:
        return _alone(arguments, path, "What is in this file now is not known here: it is outside the workspace.")
    at = history.LIVE
    if action.status != Status.PENDING and action.snapshot_before_id:
        at = action.snapshot_before.number
    try:
        name = relative.encode("utf-8", "surrogateescape")
        old = history.read_file(workspace, at, name, FILE_BYTES, timeout=patience.left)
    except Problem as problem:
        if problem.status != 404:
            return _alone(arguments, path, f"What is in this file now cannot be read: {problem.detail}")
        old = None
    new = change(old)
    if new is None:
        return _alone(
            arguments, path, "The text to replace is not in the file as it is now, or is there more than once."
        )
    if old == new:
        return Evidence("The file stays as it is.")
    return Evidence("Makes a new file" if old is None else "Changes a file", compare(relative, old, new))


def _alone(arguments: dict, path: str, why: str) -> Evidence:
    """The change as the call itself names it, without the file around it."""
    old, new = arguments.get("old_string"), arguments.get("new_string")
    if isinstance(old, str) and isinstance(new, str):
        return Evidence(why, compare(path, old.encode(), new.encode()))
    return Evidence(why)
