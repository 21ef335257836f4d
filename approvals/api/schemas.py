"""Schemas of parts of an action's requests and responses."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from ninja import Schema
from pydantic import Field, StringConstraints

from workspaces.api.schemas import Strict

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class DeclaredUndo(Strict):
    """How the server of an MCP tool says that a call is taken back, in `_meta` of the tool (docs/undo-outside.md)."""

    tool: Annotated[str, StringConstraints(min_length=1, max_length=128)]
    arguments: dict[str, dict[str, Any]] = Field(description="{name: {argument}, {result} or {value}}")


class ServedTool(Strict):
    """What `handrail mcp-gate` says of the server of an MCP tool: it can make a call ask, and never lets one run."""

    runs: Annotated[str, StringConstraints(min_length=1, max_length=500)] = Field(
        description="command line or address of the server"
    )
    sha256: Digest = Field(description="of the server's entry in an agent's settings")
    tool_sha256: Digest = Field(
        description="of the tool's definition in tools/list; of `null`, which asks, where the server does not say it"
    )
    undo: DeclaredUndo | None = None


class RehearsalOut(Schema):
    """The last try of the current revision on a copy of the workspace's files."""

    id: UUID
    status: str = Field(description="running, done, failed, outdated (the files changed since) or applied")
    exit_status: int | None
    output: str = Field(description="its end, up to 64 KiB")
    output_bytes: int
    changes: list[dict[str, Any]] = Field(
        description="of the files: {path, kind, additions, deletions, …}; the first 200"
    )
    change_count: int
    tried: list[dict[str, str]] = Field(description="what was refused: {kind, what}")
    note: str
    not_applied_because: str = Field(description="why it can't be applied; empty if it can")
    not_shown: list[str] = Field(description="what a rehearsal can't show")
    created_at: datetime
    ended_at: datetime | None


class AskedFilesOut(Schema):
    """The files of the workspace as they were when the action began to need approval."""

    state: str = Field(description="taken, taking, failed, or deleted: retention or a person deleted the snapshot")
    snapshot: int | None = Field(description="its number, once it is taken; the newest one if nothing had changed")
    reason: str = Field(description="why it could not be taken")
