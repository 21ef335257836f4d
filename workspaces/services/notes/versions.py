"""Versions of a workspace's notes: kept whenever the file changed, found, and compared.

The notes are an ordinary file of the workspace. A person's edit of a workspace at rest is a version that waits
(`given_at` is empty) until the next resume writes it.
"""

from datetime import timedelta
from difflib import unified_diff

from dashboard.database import clock
from dashboard.models import Actor
from dashboard.problems import not_found
from workspaces import lifecycle
from workspaces.changes.diff import FileDiff
from workspaces.changes.diff import compare as compare_texts
from workspaces.models import Command, NoteVersion, Terminal
from workspaces.services.notes.texts import NoteText

PATH = b".handrail/notes.md"
NAME = PATH.decode()


def newest(workspace) -> NoteVersion | None:
    return NoteVersion.objects.filter(workspace=workspace).newest()


def in_file(workspace) -> NoteVersion | None:
    """Return the version that is the file in the workspace, as of the newest snapshot."""
    return NoteVersion.objects.filter(workspace=workspace).given().newest()


def waiting(workspace) -> NoteVersion | None:
    """Return the edit that the next resume writes into the workspace, if there is one."""
    found = newest(workspace)
    return found if found is not None and found.given_at is None else None


def find(workspace, number: int) -> NoteVersion:
    """Return a version by its number. Problem 404."""
    found = NoteVersion.objects.filter(workspace=workspace, number=number).first()
    if found is None:
        raise not_found("version of these notes")
    return found


def difference(old: NoteVersion | None, new: NoteVersion) -> FileDiff:
    return compare_texts(NAME, old.text.encode() if old else b"", new.text.encode())


def patch(old: NoteVersion, new: NoteVersion) -> str:
    """Return the difference in the unified format, "" if there is none."""
    texts = [version.text.splitlines(keepends=True) for version in (old, new)]
    names = [f"{NAME} (version {version.number})" for version in (old, new)]
    lines = unified_diff(*texts, *names)
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def is_known(workspace, found: NoteText) -> bool:
    """Return True if the file is the version that is known to be there, or was removed since it expired."""
    known = in_file(workspace)
    if found.sha256:
        return known is not None and known.sha256 == found.sha256
    return known is None or not known.sha256 or known.is_expired(clock.now())


def save_if_changed(workspace, found: NoteText, *, by: Actor) -> NoteVersion | None:
    """Keep the file as the next version if it changed; return the version that it is, None if there is no file.

    Call it in a transaction that has locked the workspace's row. `by` is who asked for the snapshot.
    """
    if is_known(workspace, found):
        return in_file(workspace) if found.sha256 else None
    before = in_file(workspace)
    author = _author(workspace, by, since=before.created_at if before else workspace.created_at)
    made = add(workspace, found, by=author, days=before.days if before else None, given=True)
    data = {"version": made.number, "sha256": made.sha256, "author": author.get("label", "")}
    lifecycle.record(workspace, by, "notes.kept", data | ({"redacted": made.redacted} if made.redacted else {}))
    return made if found.sha256 else None


def add(workspace, found: NoteText, *, by: dict, days: int | None, given: bool) -> NoteVersion:
    """Create the next version; the caller has locked the workspace's row."""
    now, last = clock.now(), newest(workspace)
    return NoteVersion.objects.create(
        workspace=workspace,
        number=last.number + 1 if last else 1,
        text=found.text,
        sha256=found.sha256,
        redacted=found.redacted,
        is_cut=found.is_cut,
        by=by,
        days=days,
        expires_at=now + timedelta(days=days) if days else None,
        given_at=now if given else None,
        created_at=now,
    )


def _author(workspace, by: Actor, *, since) -> dict:
    """Return who counts as the author of a changed file.

    That is an agent that asked for the snapshot, else who started the last program since the version before, else `by`.
    """
    if by.type == "agent":
        return by.as_json
    commands = Command.objects.filter(workspace=workspace, created_at__gt=since).order_by("-created_at")
    terminals = Terminal.objects.filter(workspace=workspace, created_at__gt=since).order_by("-created_at")
    began = [
        *commands.values_list("created_at", "by")[:1],
        *terminals.values_list("created_at", "opened_by")[:1],
    ]
    last = max(began, key=lambda each: each[0], default=None)
    return last[1] if last and last[1].get("type") in ("agent", "person") else by.as_json
