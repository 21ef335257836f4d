"""The evidence of a day: rows of the database, traces in workspaces, and the notes of the actors and the watch.

It reads with plain SQL and plain files, and uses nothing of the product but the layout of its data.
"""

import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import unquote, urlsplit
from uuid import UUID

import psycopg
from psycopg.rows import dict_row

from bench.day.agents import NOTES
from bench.day.data import Data, holds
from bench.day.faults import Fault
from bench.day.pods import losses, went_at
from bench.day.seen import Seen
from bench.day.watch import Sample, Started
from tests.support import CHECKOUT

QUERIES = {
    "teams": "select * from dashboard_team",
    "agents": "select * from dashboard_agent",
    "users": "select id, username from auth_user",
    "actions": "select * from approvals_action",
    "revisions": "select * from approvals_revision",
    "decisions": "select * from approvals_decision",
    "messages": "select * from approvals_actionmessage",
    "operations": "select * from workspaces_operation",
    "commands": "select * from workspaces_command",
    "scheduled_runs": "select * from workspaces_scheduledrun",
    "schedules": "select * from workspaces_schedule",
    "events": "select * from dashboard_event order by team_id, seq",
    "workspaces": "select * from workspaces_workspace",
    "snapshots": "select * from workspaces_snapshot",
    "hosts": "select * from workspaces_runner",
}
JSON = ("data", "outcome", "result", "args", "arguments")
CANARY = "canary-9f2c71d0b5e84a6e"  # the value of a secret of the team
# A terminal whose viewer was cut off stays open, as it should.
OPEN = "select * from workspaces_operation where phase in ('due', 'claimed', 'started') and kind <> 'terminal'"


@dataclass
class Evidence:
    """Rows as dictionaries, with ids as text and times as aware datetimes."""

    rows: dict[str, list[dict]]
    traces: dict[str, list[str]]  # {workspace id: tags that ran in it, one for each run}
    seen: list[Seen]
    faults: list[Fault]
    started: list[Started]
    samples: list[Sample]
    in_flight: list[dict] = field(default_factory=list)  # operations that never ended
    branches: set[str] = field(default_factory=set)  # of the repository that is pushed to
    missing_files: list[dict] = field(default_factory=list)  # acknowledged, and in no tree
    integrity: str = "ok"  # what the database says of its own files
    canary_in: list[str] = field(default_factory=list)  # places in which the secret's value lies
    log: str = ""
    places: dict[str, dict] = field(default_factory=dict)  # of several hosts, {key: {state, place, …}} as the API says
    trees: dict[str, list[str]] = field(default_factory=dict)  # and {workspace id: hosts that have files of it}
    # {workspace id: spans of time} in which what was written went with a pod or its node
    losses: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def of(self, table: str, **where) -> list[dict]:
        return [row for row in self.rows[table] if all(row[name] == value for name, value in where.items())]


def rows_of(day, query: str) -> list[dict]:
    url = day.product.environment.get("DATABASE_URL", "")
    if url.startswith("postgres"):
        with psycopg.connect(url, row_factory=dict_row) as opened:
            found = opened.execute(query).fetchall()
    else:
        path = unquote(urlsplit(url).path) if url else day.home / "handrail.sqlite3"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)) as opened:
            opened.row_factory = sqlite3.Row
            found = [dict(row) for row in opened.execute(query)]
    return [plain(row) for row in found]


def plain(row: dict) -> dict:
    return {name: _plain(name, value) for name, value in row.items()}


def _plain(name: str, value):
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, memoryview):
        return bytes(value)
    if not isinstance(value, str):
        return value
    if name in JSON:
        return json.loads(value)
    if re.fullmatch(r"[0-9a-f]{32}", value) and (name == "id" or name.endswith("_id")):
        return str(UUID(value))
    if name == "at" or name.endswith(("_at", "_by", "_until")):
        try:
            return datetime.fromisoformat(value).replace(tzinfo=UTC)
        except ValueError:
            return value
    return value


def in_flight(day) -> list[dict]:
    return rows_of(day, OPEN)


def collect(day) -> Evidence:
    """Gather all of it, when the day is over and the product still runs."""
    rows = {name: rows_of(day, query) for name, query in QUERIES.items()}
    traces = {row["id"]: day.data.traces_of(row["id"]) for row in rows["workspaces"]}
    found = Evidence(rows, traces, day.seen, day.faults.made, day.watch.started, day.watch.samples)
    found.in_flight = day.in_flight
    found.losses = losses(found)
    listed = subprocess.run(["git", "-C", str(day.source), "branch"], capture_output=True, text=True, check=True)
    found.branches = {line.strip("* ") for line in listed.stdout.splitlines()}
    found.missing_files = missing_files(found, day.data)
    found.log = day.product.log
    if day.hosts > 1:
        found.places = day.product.places(day.operator)
        found.trees = {row["id"]: day.data.hosts_with(row["id"]) for row in rows["workspaces"]}
    found.integrity = integrity(day)
    found.canary_in = canary_in(day, found)
    return found


def integrity(day) -> str:
    if day.product.environment.get("DATABASE_URL", "").startswith("postgres"):
        return "ok"  # the server checks its pages at each reading
    return "; ".join(str(next(iter(row.values()))) for row in rows_of(day, "pragma integrity_check"))


def canary_in(day, found: Evidence) -> list[str]:
    places = ["the log"] if CANARY in found.log else []
    return places + [f"table {name}" for name, rows in found.rows.items() if any(CANARY in str(row) for row in rows)]


def missing_files(found: Evidence, data: Data) -> list[dict]:
    """Return the files whose writing was acknowledged and that are neither live nor in a snapshot, as written.

    People restore earlier snapshots meanwhile, so a file may lie in the snapshot that was taken before that alone.
    `is_owed`: a host was lost with it, the log says so of the workspace, and the host has come back with the file.
    """
    rows = {row["key"]: row for row in found.rows["workspaces"]}
    hosts = {row["id"]: row["host"] for row in found.rows["hosts"]}
    gone = {each.about["path"] for each in found.seen if each.verb in ("will delete", "delete a file")}
    missing, kept = [], {}
    for each in found.seen:
        if each.verb != "write a file" or not 200 <= each.status < 300 or each.about["path"] in gone:
            continue
        row, path = rows[each.about["workspace"]], each.about["path"]
        tree = data.tree_of(hosts.get(row["runner_id"], ""), row["id"])
        if tree and holds(tree / path, each.about["sha256"]):
            continue
        if row["id"] not in kept:
            kept[row["id"]] = _in_snapshots(found, data, row["id"], row["team_id"])
        if (path, each.about["bytes"]) not in kept[row["id"]]:
            if went_at(found.losses.get(row["id"], []), each.at):
                continue  # with its pod, after the snapshot that came back; the desk says so
            is_owed = _is_owed(found, row["id"], each.at) and data.is_aside(row["id"], path, each.about["sha256"])
            missing.append(each.about | {"at": each.at, "is_owed": is_owed})
    return missing


def _is_owed(found: Evidence, workspace: str, at: float) -> bool:
    """Return whether the log says of a later loss of its host that changes of the workspace are on it."""
    lost = found.of("events", verb="workspace.host_lost", workspace_id=workspace)
    return any(each["at"].timestamp() > at and "Changes since" in each["data"]["reason"] for each in lost)


def _in_snapshots(found: Evidence, data: Data, workspace: str, team: str) -> set[tuple]:
    """Return (path, size) of the files below notes/ in all snapshots of a workspace."""
    kept = set()
    for tree in {row["tree"].hex() for row in found.of("snapshots", workspace_id=workspace)}:
        for folder in NOTES:
            command = [sys.executable, "-m", "workspaces.store", "ls", data.store_of(team), tree, folder]
            how = {"cwd": CHECKOUT, "env": data.environment, "capture_output": True, "text": True}
            done = subprocess.run(command, check=False, **how)
            entries = [json.loads(line) for line in done.stdout.splitlines()] if done.returncode == 0 else []
            kept |= {(f"{folder}/{entry['name']}", entry["size"]) for entry in entries}
    return kept
