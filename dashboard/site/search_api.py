"""Search over HTTP, as the page does it. For people."""

from datetime import datetime
from typing import Literal

from django.urls import reverse
from ninja import Query, Router, Schema
from pydantic import Field

from dashboard.problems import invalid, not_allowed
from dashboard.site import search
from dashboard.site.search_limits import Hit, Limits, Scan
from dashboard.web.api_base import PROBLEMS

router = Router(tags=["search"])
Kind = Literal[tuple(search.KINDS)]


class HitOut(Schema):
    kind: str
    title: str
    line: str = Field(description="the line with the words; empty if the title has them")
    where: str = Field(description="the workspace, or who said it")
    at: datetime | None
    url: str = Field(description="of its page, below the desk's address")


class ScanOut(Schema):
    kind: str
    searched: int = Field(description="recordings, or snapshots of workspaces, that there was time for")
    total: int
    back_to: datetime | None = Field(description="of rows: those before this time were not searched")
    large: int = Field(0, description="files, and recordings, that were too long to be searched to their end")
    binary: int = Field(0, description="files that are no text, of which only the names were searched")
    elsewhere: int = Field(0, description="recordings on another host, which were not searched")


class MoreOut(Schema):
    kind: str
    before: str = Field(description="send it with this kind for what is older")


class SearchOut(Schema):
    hits: list[HitOut]
    not_all: list[ScanOut] = Field(description="of kinds of which something was not searched")
    more: list[MoreOut] = Field(description="where kinds with more results, or not searched to the end, go on")


@router.get("/search", response={200: SearchOut} | PROBLEMS)
def read_search(
    request,
    q: str = Query(..., min_length=1, max_length=search.MAX_QUERY_CHARS),
    kind: Kind | None = None,
    workspace: str = Query("", description="the key of one workspace"),
    at: int | None = Query(None, ge=1, le=10**8, description="with a workspace: search the files of this snapshot"),
    since: datetime | None = None,
    until: datetime | None = None,
    agent: str = Query("", description="name or id of the agent that asked, did or wrote it"),
    person: str = Query("", description="name of the person who did, answered or wrote it"),
    before: str = Query("", description="with a kind: a cursor of `more`, to go on from"),
):
    """Return what has every word: the newest 20 of each kind, or 200 of one kind. For people."""
    if not request.auth.is_person:
        raise not_allowed("Only people can search.")
    if any(moment and moment.tzinfo is None for moment in (since, until)):
        raise invalid("since and until need an offset, such as Z.")
    q = q.replace("\0", "\ufffd").strip()
    if not q:
        raise invalid("q has no words.")
    if before and not kind:
        raise invalid("before goes on with one kind: name it.")
    limits = Limits(
        most=search.MAX_OF_ONE if kind else search.MAX_RESULTS,
        seconds=search.SECONDS_OF_ONE if kind else search.SECONDS,
        since=since,
        until=until,
        workspace=workspace.replace("\0", "\ufffd"),
        at=at if workspace else None,
        agents=search.agents_named(request.auth, agent.replace("\0", "\ufffd")),
        people=search.people_named(request.auth, person.replace("\0", "\ufffd")),
        before=before.replace("\0", "\ufffd"),
    )
    return _answer(search.found_of(request.auth, q, kind or "", limits))


def _answer(found: dict[str, Scan]) -> dict:
    return {
        "hits": [_hit(name, row) for name, scan in found.items() for row in scan.hits],
        "not_all": [
            {"kind": name} | {of: getattr(scan, of) for of in ScanOut.model_fields if of != "kind"}
            for name, scan in found.items()
            if scan.is_cut or scan.left_something_out
        ],
        "more": [{"kind": name, "before": scan.cursor} for name, scan in found.items() if scan.cursor],
    }


def _hit(kind: str, row) -> dict:
    """Return a row or a Hit of any kind."""
    if isinstance(row, Hit):
        return {"kind": kind, **{name: getattr(row, name) for name in ("title", "line", "where", "at", "url")}}
    title, where, at, url = ROWS[kind](row)
    return {"kind": kind, "title": title, "line": "", "where": where, "at": at, "url": url}


def _at(name: str, workspace, *more) -> str:
    return reverse(name, args=(workspace.team.slug, workspace.key, *more))


ROWS = {
    "workspaces": lambda row: (row.key, row.key, row.last_active_at, _at("workspace", row)),
    "actions": lambda row: (
        f"A-{row.number} {row.title}",
        row.workspace.key if row.workspace else "",
        row.created_at,
        reverse("action", args=(row.pk,)),
    ),
    "commands": lambda row: (
        row.shown,
        row.workspace.key,
        row.created_at,
        _at("command", row.workspace, row.pk),
    ),
    "snapshots": lambda row: (
        f"{row.number} {row.label}",
        row.workspace.key,
        row.created_at,
        _at("snapshot", row.workspace, row.number),
    ),
    "agents": lambda row: (str(row), "", row.last_seen_at, reverse("agent", args=(row.pk,))),
}
