"""Who changed a file: each of its versions, and each line, with the action or command that it comes from.

What ran between two snapshots may have changed the file. If the arguments of some of it name the file, it was them; if
not, all that ran is named as possible. Edits of one version are told apart by applying them again in their order.
"""

from dataclasses import dataclass
from functools import partial

from approvals.evidence.changes import TooLarge, change_of
from approvals.policy.rules import FILE_READERS
from approvals.policy.tools import QUIET
from approvals.reports.acts import SNAPSHOT_CAUSES, Act, acts_between
from workspaces.changes.history import LIVE
from workspaces.services import file_versions
from workspaces.services.file_versions import Version

READING = {*FILE_READERS, *QUIET, "WebFetch", "WebSearch"}  # tools that change no file


@dataclass(frozen=True)
class Change:
    """A version of a file and what may have caused it; `certain`: the acts name the file, or nothing else ran."""

    version: Version
    acts: list[Act]
    certain: bool


@dataclass(frozen=True)
class Lines:
    """Consecutive lines that come from one change; `act` is the one they come from, None if that is not certain."""

    change: Change
    act: Act | None
    first: int
    lines: list[bytes]


def changes_of(workspace, path: bytes, at=LIVE) -> list[Change]:
    """Return the changes of a file up to a point, newest first. Problem 404 if no point has the file, 409 a folder."""
    versions = file_versions.versions_of(workspace, path, at)
    before = versions[-1].before
    acts = acts_between(workspace, before.created_at if before else None, _snapshot_time(versions[0]))
    return [_change(version, acts) for version in versions]


def traced(workspace, changes: list[Change]) -> list[Lines]:
    """Return the lines of the newest version, in runs of one origin. Problem 409 if they cannot be traced."""
    by_version = {id(change.version): change for change in changes}
    steps = partial(_steps, by_version)
    runs = file_versions.traced_lines(workspace, [change.version for change in changes], steps)
    return [_lines(by_version[id(run.version)], run) for run in runs]


def _snapshot_time(version: Version):
    return version.snapshot.created_at if version.snapshot else None


def _change(version: Version, acts: list[Act]) -> Change:
    since, until = version.before and version.before.created_at, _snapshot_time(version)
    found = [act for act in acts if act.was_on(since, until)]
    if version.snapshot and version.snapshot.kind in SNAPSHOT_CAUSES:
        own = [act for act in found if act.thing == version.snapshot]
        return Change(version, own, certain=True)
    found = [act for act in found if act.kind != "snapshot"]
    naming = [act for act in found if {version.path, version.old_path} & act.paths]
    # An act that names other files only may have changed this one by what it runs; an edit or an event did not.
    possible = naming or [act for act in found if not _is_edit(act) and not _only_reads(act)]
    return Change(version, possible, certain=bool(naming) or len(possible) == 1)


def _is_edit(act: Act) -> bool:
    return act.kind == "event" or (act.kind == "action" and _replay(act) is not None)


def _only_reads(act: Act) -> bool:
    return act.call is not None and act.call["tool"] in READING


def _replay(act: Act):
    """Return the function from a file's content before the act to the one after it, None if it is no edit."""
    change = change_of(act.call["tool"], act.call["arguments"]) if act.call else None
    return change and change[1]


def _steps(by_version: dict, version: Version, old: bytes, new: bytes) -> list[tuple[Act, bytes]]:
    """Apply the edits of a version in their order, and return the content after each; those that do not fit are left.

    What they do not explain comes from something else that ran.
    """
    change, steps, content = by_version[id(version)], [], old
    if len(change.acts) == 1 and change.certain:
        return [(change.acts[0], new)]
    for act in change.acts:
        replay = _replay(act)
        try:
            after = replay(content) if replay else None
        except TooLarge:
            after = None
        if after is not None:
            steps.append((act, after))
            content = after
    return steps


def _lines(change: Change, run) -> Lines:
    others = [act for act in change.acts if _replay(act) is None]
    act = run.step or (others[0] if change.certain and len(others) == 1 else None)
    return Lines(change, act, run.first, run.lines)
