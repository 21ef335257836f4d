"""Search and query what a command printed, and a file of a workspace or a snapshot, for whoever may read it."""

from dashboard.database import clock
from dashboard.models import Actor
from dashboard.problems import Problem
from workspaces.changes import history
from workspaces.models import Command, Workspace
from workspaces.programs import recordings
from workspaces.programs.kept_text import asking


def search_output(command: Command, pattern: str, *, by: Actor, **wish) -> dict:
    """Return what `asking.search` finds in a command's output so far. Problem 404 if that was deleted."""
    return asking.search(_output_of(command), pattern, who=_agent_of(by), **wish)


def query_output(command: Command, sql: str, *, by: Actor, **wish) -> dict:
    """Return what `asking.query` says of a command's output so far, the table `output`. Problem 404 if deleted."""
    return asking.query(_output_of(command), sql, who=_agent_of(by), table="output", **wish)


def search_file(workspace: Workspace, at, path: bytes, pattern: str, *, by: Actor, **wish) -> dict:
    """Return what `asking.search` finds in a file at a point: a snapshot's number or `history.LIVE`."""
    return asking.search(_bytes_of(workspace, at, path), pattern, who=_agent_of(by), **wish)


def query_file(workspace: Workspace, at, path: bytes, sql: str, *, by: Actor, **wish) -> dict:
    """Return what `asking.query` says of a file at a point, the table `file`."""
    return asking.query(_bytes_of(workspace, at, path), sql, who=_agent_of(by), table="file", **wish)


def _output_of(command: Command) -> asking.Pieces:
    if command.swept_at:
        raise Problem(404, f"Its output was kept until {clock.in_utc(command.swept_at)}.")
    return recordings.of(command).pieces if command.started_at else lambda: ()


def _bytes_of(workspace: Workspace, at, path: bytes) -> asking.Pieces:
    return lambda: history.stream_file(workspace, at, path)


def _agent_of(by: Actor) -> str:
    return by.id if by.type == "agent" else ""
