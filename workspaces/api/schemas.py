"""Request and response schemas of the workspaces API (shapes: api.md)."""

from datetime import datetime
from typing import Annotated, Literal

from ninja import Schema
from pydantic import ConfigDict, Field, StringConstraints

from dashboard.problems import invalid
from workspaces.models import KEY_PATTERN, State
from workspaces.services import listing

Key = Annotated[str, StringConstraints(pattern=rf"^{KEY_PATTERN}$", max_length=64)]
Base64 = Annotated[
    str, StringConstraints(pattern=r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)$")
]
LabelName = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[^:\s]+$")]
LabelValue = Annotated[str, StringConstraints(max_length=200)]


class Strict(Schema):
    """A request body. Unknown fields are refused, so that a misspelt one is not ignored."""

    model_config = ConfigDict(extra="forbid")


class Source(Strict):
    git: str | None = Field(None, max_length=500)
    ref: str | None = Field(None, max_length=200)
    upload: str | None = Field(None, max_length=64)


class NewWorkspace(Strict):
    key: Key
    description: str | None = Field(None, max_length=500)
    driver: str | None = Field(None, max_length=32)
    environment: str | None = Field(None, max_length=80)
    source: Source | None = None
    image: str | None = Field(None, max_length=200)
    setup: str | None = Field(None, max_length=100_000)
    labels: dict[LabelName, LabelValue] | None = Field(None, max_length=50)
    fresh: bool = False
    artifacts: list[Annotated[str, StringConstraints(min_length=1, max_length=100)]] | None = Field(
        None,
        max_length=20,
        description="artifacts of the same repository; the newest of each name goes to /workspace/artifacts/NAME",
    )


class WorkspaceFilters(Schema):
    """Query parameters of the list of workspaces."""

    state: State | Literal["", "unreachable"] = Field("", description="as stored, or unreachable")
    label: str = Field("", description="name:value")
    owner: str = Field("", description="a person's name, or none")
    agent: str = ""
    environment: str = ""
    driver: str = ""
    quiet_days: int | None = Field(None, ge=1, le=listing.MAX_QUIET_DAYS, description="without activity for so long")
    changed: bool = Field(False, description="only those whose files differ from those after setup")
    fork_of: str = ""
    sort: Literal["", "activity", "quiet", "size", "name"] = ""

    def as_filters(self) -> listing.Filters:
        if self.label and ":" not in self.label:
            raise invalid("Write a label filter as name:value.")
        texts = self.model_dump(exclude={"quiet_days", "changed"})
        if any("\0" in text for text in texts.values()):
            raise invalid("A filter can't contain a NUL character.")
        quiet = str(self.quiet_days) if self.quiet_days else ""
        return listing.Filters(**texts, quiet=quiet, changed="yes" if self.changed else "")


class WorkspaceChange(Strict):
    """What is named is set; what is left out stays. `""` clears a text."""

    description: str | None = Field(None, max_length=500)
    labels: dict[LabelName, LabelValue] | None = Field(None, max_length=50, description="all, not only new ones")
    owner: str | None = Field(None, max_length=150, description="the name of a person of the team")
    ticket: str | None = Field(None, max_length=100, description="its id in the team's tracker")
    agents: list[Annotated[str, StringConstraints(min_length=1, max_length=200)]] | None = Field(None, max_length=200)


class NewRevision(Strict):
    git: str | Source | None = None
    ref: str | None = Field(None, max_length=200)
    upload: str | None = Field(None, max_length=64)
    base: int | None = Field(None, ge=1, le=2**31 - 1)
    mode: Literal["merge", "replace"] = "merge"
    how: Literal["merge", "rebase", "beside"] | None = Field(
        None, description="how commits are taken; conflicts are left in the files, and the answer comes at once"
    )

    def source(self) -> dict:
        if isinstance(self.git, Source):
            return self.git.model_dump()
        return {"git": self.git, "ref": self.ref, "upload": self.upload}


class RevisionOut(Schema):
    operation: str
    state: str
    revision: int | None
    snapshot: int | None
    safety_snapshot: int | None
    created: int | None
    changed: int | None
    removed: int | None


class Fork(Strict):
    key: Key
    snapshot: int | None = Field(None, ge=1, le=2**31 - 1)
    environment: str | None = Field(None, max_length=80, description="another one, whose setup runs on the files")


class NewCommand(Strict):
    command: str | None = None
    argv: list[str] | None = Field(None, min_length=1, max_length=1000)
    check: str | None = Field(None, max_length=80)
    cwd: str | None = Field(None, max_length=4096)
    env: dict[str, str] | None = Field(None, max_length=200)
    timeout_s: int | None = Field(None, ge=1, le=7 * 24 * 3600)


class NewTerminal(Strict):
    argv: list[str] | None = Field(None, min_length=1, max_length=100)
    cols: int | None = Field(None, ge=1, le=1000)
    rows: int | None = Field(None, ge=1, le=1000)


class NewSnapshot(Strict):
    label: str | None = Field(None, max_length=120)


SHA = r"^([0-9a-f]{40}|[0-9a-f]{64})?$"


class NewPush(Strict):
    branch: str = Field(min_length=1, max_length=200)
    sha: str = Field("", pattern=SHA, description="the commit to push; empty: HEAD, whatever it is by then")


class NewPullRequest(Strict):
    branch: str = Field(min_length=1, max_length=200)
    base: str = Field("", max_length=200, description="where it goes; empty: the repository's default branch")
    title: str = Field(
        "", max_length=250, description="empty: the subject of the newest commit; else that of an open one becomes this"
    )
    body: str = Field(
        "",
        max_length=60_000,
        description="empty: the repository's template, and what is written from the history of the workspace; else that"
        " of an open one becomes this",
    )
    draft: bool = Field(False, description="open it as a draft (WIP at Gitea and Forgejo)")
    sha: str = Field("", pattern=SHA, description="the commit to push; empty: HEAD, whatever it is by then")


class NewRestore(Strict):
    paths: list[str] | None = Field(None, min_length=1, max_length=10_000)
    paths_b64: list[Base64] | None = Field(
        None,
        min_length=1,
        max_length=10_000,
        description="More of them, as `path_b64` names them",
    )


class Place(Schema):
    host: str
    since: datetime


class Owed(Schema):
    host: str = Field(description="the host that was lost")
    since: datetime | None = Field(None, description="when the snapshot was taken that it came back from")
    snapshot: int | None = Field(None, description="the number of that snapshot")
    found: bool = Field(False, description="the host is back, and its files can be kept as a fork")


class WorkspaceOut(Schema):
    key: str
    team: str
    description: str
    driver: str
    isolation: str
    environment: str
    environment_version: int
    source: dict
    state: str = Field(description="as stored, or unreachable: its host does not answer, and nothing of it is gone")
    since: datetime | None = Field(None, description="since when it is unreachable: when its host answered last")
    place: Place | None = Field(None, description="the host that has its files; null before one was chosen")
    owed: Owed | None = Field(None, description="changes that a lost host has, which came back without them")
    reason: str
    reason_code: str = Field(
        description="what `reason` says: unreachable (its driver doesn't answer), backend_lost (its programs go on, "
        "and it is paused, stopped or deleted once its engine answers), held_up, not_cleared or empty"
    )
    unreachable_since: datetime | None = Field(
        None, description="when its host, which is away, answered last; null while it answers, or never did"
    )
    hook_problem: str = Field("", description="of a connected folder: why its agent is, or was, not gated")
    busy: str | None = Field(description="the kind of the exclusive operation in flight")
    labels: dict[str, str]
    owner: str | None = Field(description="the name of the person whom others ask about it")
    ticket: str
    ticket_url: str = Field(description="where its ticket is; empty when it has none, or the team no tracker")
    forked_from: str | None = Field(description="the workspace that it is a fork of")
    created_at: datetime
    last_active_at: datetime | None
    head_snapshot: int | None
    baseline_snapshot: int | None
    entries: int | None
    bytes: int | None
    proof: dict
    alarm: dict = Field(description="a proof that did not hold and that nobody has answered; {} when there is none")
    missing_snapshot: str = Field(description="why the snapshot of its end is missing; empty when it is there")
    awake_until: datetime | None = Field(description="somebody asked to keep it awake until then")
    watching: dict = Field(
        description="{how: fanotify | guest | inotify | off, why}: whether snapshots look only at what may have changed"
    )
    vitals: dict = Field(
        description="as measured: at, bytes on disk, shared ([{id, key, bytes}]: what of them it shares with other "
        "workspaces, which count it in the team's sum), ports, and why it is frozen, if it is"
    )
    agents: list[str] | None = Field(description="those that may work in it besides its creator; not in lists")
    run: dict | None = Field(description="its newest run and how long that took; not in lists")
    agents_at_work: list[str] | None = Field(
        None, description="those that did something in the last ten minutes, or have something running; not in lists"
    )
    in_trash_until: datetime | None
    url: str


class UploadOut(Schema):
    id: str
    bytes: int


class WorkspacePage(Schema):
    workspaces: list[WorkspaceOut]
    cursor: str | None


class SnapshotOut(Schema):
    number: int
    tree: str
    kind: str
    label: str
    entries: int
    bytes: int
    added_bytes: int
    looked_at: dict = Field(
        description="{walked, watched}: how many entries it looked at by walking, and because their folder was changed"
    )
    skipped: int
    not_kept: list[dict] = Field(description="{path, reason} of what could not be kept, at most 200 of them")
    pinned: bool
    created_at: datetime
    in_trash_until: datetime | None = None


class Resume(Strict):
    snapshots: list[int] = Field([], description="numbers of up to 8 snapshots that its programs can read")


class NewSnapshotFolder(Strict):
    minutes: int = Field(60, description="for which it stays open, 1 to 1440")


class OpenFolder(Schema):
    snapshot: int
    path: str = Field(description="which only the user that runs Handrail on the host, and root, can read")
    host: str
    until: datetime


class SnapshotFolderOut(Schema):
    open: OpenFolder | None
    why_not: str = Field(description="why it cannot be opened on its workspace's host; empty if it can")


class SnapshotPage(Schema):
    snapshots: list[SnapshotOut]
    cursor: str | None


class RestoreOut(Schema):
    operation: str
    safety_snapshot: int | None
    snapshot: int
    state: str
    outcome: dict | None


class OperationOut(Schema):
    id: str
    kind: str
    phase: str
    progress: dict
    can_be_stopped: bool
    asked_to_stop: bool
    outcome: dict | None
    waits_for: str = Field("", description="what it waits for, as a message: its host, which does not answer")
    created_at: datetime


class OperationsOut(Schema):
    operations: list[OperationOut]


class PushOut(Schema):
    operation: str
    state: str
    outcome: dict | None


class PullRequestOut(Schema):
    number: int
    url: str
    branch: str
    base: str
    title: str
    sha: str
    opened_at: datetime
    pushed_at: datetime


class PullRequestsOut(Schema):
    pull_requests: list[PullRequestOut]


class AskedOut(Schema):
    """An action that a person must allow first; poll it at /actions/{id}.

    A request with the same Idempotency-Key returns the action as it is then.
    """

    action: dict
    status: str = Field(description="as of an action: pending while it waits")
    url: str = Field(description="the card, for people")


class CommandOut(Schema):
    id: str
    state: str = Field(description="due, claimed, started, settled or uncertain")
    command: str
    cwd: str
    check: str | None
    exit_status: int | None
    signal: int | None
    reason: str
    output_bytes: int
    truncated: bool
    envelope: dict | None = Field(description="what the kernel holds it to: read, write, network, seconds")
    blocked: list[dict] = Field(description="what that refused: {kind, what}")
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


class TerminalOut(Schema):
    id: str
    state: str = Field(description="due, claimed, started, settled or uncertain")
    offset: int = Field(description="where its output begins")
    argv: list[str]
    cols: int
    rows: int
    exit_status: int | None
    created_at: datetime
    ended_at: datetime | None
    held: bool = Field(description="its programs run in an envelope, as those of agents do")
    shared: bool = Field(description="a person's terminal that agents may read")


class SharedTerminal(Strict):
    shared: bool


class LinesOut(Schema):
    files: int
    additions: int
    deletions: int
    are_all: bool = Field(description="whether every text was counted; else additions and deletions are at least these")


class ChangesOut(Schema):
    changes: list[dict]
    total: LinesOut | None = Field(None, description="absent if nothing changed")


class PointOut(Schema):
    workspace: str
    at: str = Field(description="a snapshot's number, or live")


class BesideOut(Schema):
    base: PointOut
    left: PointOut
    right: PointOut
    counts: dict[str, int] = Field(description="files by state, and how many of them are conflicts")
    left_out: int = Field(description="files that git ignores or a tool builds; listed with ignored=true")
    are_all_counted: bool = Field(description="whether the lines of every text were counted")
    files: list[dict]


class FolderOut(Schema):
    path: str
    entries: list[dict]
