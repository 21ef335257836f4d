"""Who changed a file of a workspace, over HTTP."""

from datetime import datetime

from ninja import Query, Router, Schema
from pydantic import Field

from approvals.reports import file_history
from approvals.reports.acts import Act
from dashboard.problems import not_allowed
from dashboard.web.api_base import PROBLEMS
from workspaces.api.lookup import find, path_after, point_of
from workspaces.changes import history

router = Router(tags=["files"])


class ActOut(Schema):
    """Something that ran and may have changed the file."""

    kind: str = Field(description="action, command, terminal, event or snapshot")
    id: str
    title: str
    by: str
    approval: str = Field(description="of an action: person, grant or policy; else empty")
    approver: str = Field(description="the person who approved it, or gave the grant")
    at: datetime


class FileVersionOut(Schema):
    snapshot: int | None = Field(description="null: now")
    before: int | None = Field(description="the point before; null: there is none")
    path: str
    path_b64: str | None = None
    old_path: str
    kind: str = Field(description="added, modified, removed, renamed or mode (permissions or attributes)")
    additions: int | None = Field(description="null: not counted")
    deletions: int | None = Field(description="null: not counted")
    certain: bool = Field(description="false: one or more of the acts changed it")
    acts: list[ActOut]


class FileHistoryOut(Schema):
    versions: list[FileVersionOut] = Field(description="newest first")


class BlamedLinesOut(Schema):
    first: int = Field(description="number of the first line, from 1")
    last: int
    version: int = Field(description="index in `versions`")
    act: ActOut | None = Field(description="null: see the version's acts")


class BlameOut(FileHistoryOut):
    lines: list[BlamedLinesOut]


@router.get("/workspaces/{key}/file-history/{file:path}", response={200: FileHistoryOut} | PROBLEMS)
def read_file_history(request, key: str, path: str, at: str = Query("live", description="a snapshot number, or live")):
    """Return the versions of a file over the snapshots, and what ran when it changed. For people."""
    return {"versions": [_version(change) for change in _changes(request, key, "/file-history/", path, at)[1]]}


@router.get("/workspaces/{key}/blame/{file:path}", response={200: BlameOut} | PROBLEMS)
def read_blame(request, key: str, path: str, at: str = Query("live", description="a snapshot number, or live")):
    """Return which version each line comes from, and the action or command, if that is certain. For people."""
    workspace, changes = _changes(request, key, "/blame/", path, at)
    lines = [
        {
            "first": run.first,
            "last": run.first + len(run.lines) - 1,
            "version": changes.index(run.change),
            "act": run.act and _act(run.act),
        }
        for run in file_history.traced(workspace, changes)
    ]
    return {"versions": [_version(change) for change in changes], "lines": lines}


def _changes(request, key: str, prefix: str, path: str, at: str):
    """Return (workspace, changes of the file). An agent is refused: it would read the calls of other agents."""
    workspace = find(request, key)
    if not request.auth.is_person:
        raise not_allowed("Only people can read who changed a file.")
    return workspace, file_history.changes_of(workspace, path_after(request, prefix, path).strip(b"/"), point_of(at))


def _version(change: file_history.Change) -> dict:
    version = change.version
    return history.path_fields("path", version.path) | {
        "snapshot": version.snapshot and version.snapshot.number,
        "before": version.before and version.before.number,
        "old_path": history.path_fields("path", version.old_path)["path"],
        "kind": version.kind,
        "additions": version.additions,
        "deletions": version.deletions,
        "certain": change.certain,
        "acts": [_act(act) for act in change.acts],
    }


def _act(act: Act) -> dict:
    return {
        "kind": act.kind,
        "id": str(act.thing.pk),
        "title": act.title,
        "by": act.who,
        "approval": act.approval,
        "approver": act.approver,
        "at": act.began,
    }
