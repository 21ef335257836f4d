"""Evidence for a call that changes one file: the diff to the file as it is."""

import json

from approvals.evaluation.calls import beneath, root_of
from approvals.models import Status
from approvals.policy.patches import BadPatch, read_patch
from dashboard.problems import Problem
from workspaces.changes import history
from workspaces.changes.diff import compare
from workspaces.changes.highlight import deadline

from . import patches
from .findings import UNKNOWN, Evidence

FILE_BYTES = 512 * 1024
MAX_RESULT = 4 * 1024**2  # bytes of a file after a call; each of 1,000 edits may replace all text by longer text
MAX_WORK = 16 * 1024**2  # bytes that the edits of one call search in total


CHANGED_SINCE = "The file has changed since the agent asked: the last difference below shows how."
NO_LONGER_FITS = "The text to replace isn't in it any more, or occurs more than once."


class TooLarge(Exception):
    """The change is too large to compute."""


def change_of(tool: str, arguments: dict):
    """Return (path, function from old bytes or None to new bytes or None) for a call that changes one file, else None.

    The function returns None when the change does not fit the file, and may raise TooLarge.
    """
    path = arguments.get("notebook_path" if tool == "NotebookEdit" else "file_path")
    if not isinstance(path, str):
        return None
    if tool == "NotebookEdit":
        return path, lambda old: _notebook(old, arguments)
    if tool == "MultiEdit" and isinstance(arguments.get("edits"), list):
        return path, lambda old: _all_replaced(old, arguments["edits"])
    if tool == "Write" and isinstance(arguments.get("content"), str):
        return path, lambda old: arguments["content"].encode()
    old_string, new_string = arguments.get("old_string"), arguments.get("new_string")
    if tool == "Edit" and isinstance(old_string, str) and isinstance(new_string, str):
        return path, lambda old: _replaced(old, old_string.encode(), new_string.encode(), arguments.get("replace_all"))
    return None


def _all_replaced(old: bytes | None, edits: list) -> bytes | None:
    """Return the file after all edits in order; None if one of them does not fit."""
    work = 0
    for edit in edits:
        work += len(old or b"")
        if work > MAX_WORK:
            raise TooLarge
        words = edit if isinstance(edit, dict) else {}
        before, after = words.get("old_string"), words.get("new_string")
        if not isinstance(before, str) or not isinstance(after, str):
            return None
        old = _replaced(old, before.encode(), after.encode(), words.get("replace_all"))
        if old is None:
            return None
    return old


def _notebook(old: bytes | None, arguments: dict) -> bytes | None:
    """Return the notebook with one cell replaced, inserted or deleted, formatted as by Jupyter; None if none fits."""
    try:
        book = json.loads(old or b"")
        cells = book["cells"]
        wanted, source = arguments.get("cell_id"), arguments.get("new_source", "")
        at = next((n for n, cell in enumerate(cells) if wanted in (cell.get("id"), f"cell-{n}")), None)
        mode = arguments.get("edit_mode") or "replace"
        if mode == "insert":
            kind = arguments.get("cell_type") or "code"
            new = {"cell_type": kind, "metadata": {}, "source": source.splitlines(keepends=True)}
            cells.insert(0 if at is None else at + 1, new)
        elif at is None:
            return None
        elif mode == "delete":
            del cells[at]
        else:
            cells[at]["source"] = source.splitlines(keepends=True)
        return _printed(book).encode() + (b"\n" if old.endswith(b"\n") else b"")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _printed(book: dict) -> str:
    pieces, size = [], 0
    for piece in json.JSONEncoder(indent=1, ensure_ascii=False).iterencode(book):
        size += len(piece)
        if size > MAX_RESULT:  # indentation may add a thousand blanks to each of many short values
            raise TooLarge
        pieces.append(piece)
    return "".join(pieces)


def patch_evidence(arguments: dict) -> Evidence:
    """Return the evidence that a patch itself contains; the patched files are not read."""
    try:
        files = patches.files_of(read_patch(arguments))
    except BadPatch:
        return Evidence(UNKNOWN)
    until = deadline()
    first, *others = [compare(path, old, new, until=until) for path, old, new in files]
    count = f"{len(files)} files" if len(files) > 1 else "1 file"
    return Evidence(f"Changes {count}, as the patch says", first, others=others)


def _replaced(old: bytes | None, before: bytes, after: bytes, everywhere) -> bytes | None:
    """Return the file after the edit; None if the edit does not fit."""
    if not before:
        return after if not old else None
    if old is None or before not in old or (not everywhere and old.count(before) > 1):
        return None
    if len(old) + old.count(before) * (len(after) - len(before)) > MAX_RESULT:
        raise TooLarge
    return old.replace(before, after)


def file_evidence(action, call: dict, path: str, change, *, time_limit) -> Evidence:
    """Return the diff of one file from a fixed point on: see `_point`. Of a pending one also what changed since."""
    workspace, cwd, arguments = action.workspace, call["cwd"], call["arguments"]
    relative = beneath(path, cwd, root_of(workspace)) if workspace and cwd else None
    if not relative:
        return _alone(arguments, path, "Can't compare: the file is outside the workspace.")
    if action.consumed_at and not action.snapshot_before_id:
        return _alone(arguments, path, "Can't compare: its snapshot was deleted.")
    at = _point(action)
    try:
        old = _read(workspace, at, relative, time_limit)
    except Problem as problem:
        return _alone(arguments, path, f"Can't read the file: {problem.detail}")
    evidence = _compared(arguments, path, relative, old, change)
    if action.status == Status.PENDING and at != history.LIVE:
        _add_later_changes(evidence, workspace, relative, old, change, time_limit)
    return evidence


def _point(action) -> int | str:
    """Return the snapshot before the call, once it ran; else that from when it was asked; else "live"."""
    if action.status != Status.PENDING and action.snapshot_before_id:
        return action.snapshot_before.number
    return action.asked_snapshot.number if action.asked_snapshot_id else history.LIVE


def _read(workspace, at, relative: str, time_limit) -> bytes | None:
    """Return the file's bytes at a point; None if there is no such file. Raise Problem if it cannot be read."""
    try:
        name = relative.encode("utf-8", "surrogateescape")
        return history.read_file(workspace, at, name, FILE_BYTES, timeout=time_limit.left)
    except Problem as problem:
        if problem.status != 404:
            raise
        return None


def _add_later_changes(evidence: Evidence, workspace, relative: str, old: bytes | None, change, time_limit):
    """Say of a file that differs from when the agent asked that it does, show how, and whether the call still fits."""
    try:
        now = _read(workspace, history.LIVE, relative, time_limit)
    except Problem as problem:
        evidence.says += f". Whether it has changed since the agent asked is unknown: {problem.detail}"
        return
    if now == old:
        return
    evidence.others.append(compare(relative, old, now))
    evidence.says = f"{evidence.says.rstrip('.')}. {CHANGED_SINCE}"
    try:
        fits = change(now) is not None
    except TooLarge:
        fits = True
    if not fits:
        evidence.says += f" {NO_LONGER_FITS}"


def _compared(arguments: dict, path: str, relative: str, old: bytes | None, change) -> Evidence:
    """Return the diff from the file's bytes at a point (None: no file) to what the call makes of them."""
    try:
        new = change(old)
    except TooLarge:
        return _alone(arguments, path, "The change is too large to compare.")
    if new is None:
        return _alone(arguments, path, "The text to replace isn't in the file, or occurs more than once.")
    if old == new:
        return Evidence("The file does not change.")
    return Evidence("Creates a file" if old is None else "Changes a file", compare(relative, old, new))


def _alone(arguments: dict, path: str, why: str) -> Evidence:
    """Return the change as in the call's arguments, without the rest of the file; `why` is the sentence about that."""
    edits = arguments.get("edits") if isinstance(arguments.get("edits"), list) else [arguments]
    texts = [(edit.get("old_string"), edit.get("new_string")) for edit in edits if isinstance(edit, dict)]
    if texts and all(isinstance(text, str) for pair in texts for text in pair):
        until = deadline()
        # Parts of a file: that they end without a newline says nothing.
        pairs = [(f"{old}\n".encode(), f"{new}\n".encode()) for old, new in texts]
        first, *others = [compare(path, old, new, until=until) for old, new in pairs]
        return Evidence(why, first, others=others)
    source = arguments.get("new_source")
    return Evidence(why, compare(path, None, source.encode())) if isinstance(source, str) else Evidence(why)
