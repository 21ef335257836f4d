"""Snapshots opened as folders on the host that has their workspace: read-only, for a while."""

import json
from datetime import datetime

from dashboard.models import Actor
from dashboard.problems import Problem, conflict, invalid
from workspaces import lifecycle
from workspaces.models import Snapshot
from workspaces.operations import runner_client

MINUTES = 60
MOST_MINUTES = 24 * 60
MOUNT_SECONDS, ASK_SECONDS = 60, 4


def open_folder(snapshot: Snapshot, *, by: Actor, minutes: int = MINUTES) -> dict:
    """Open a snapshot as a folder, or keep it open for longer.

    Return {snapshot, path, host, until}. Problem 409 (code no_fuse) on a host that cannot, 422, 503.
    """
    if snapshot.trashed_at:
        raise conflict("This snapshot is in the trash. Restore it from there first.")
    if not 1 <= minutes <= MOST_MINUTES:
        raise invalid(f"A folder can be open for 1 to {MOST_MINUTES} minutes.")
    workspace, body = snapshot.workspace, json.dumps({"minutes": minutes}).encode()
    what = f"snapshot-folders/{snapshot.number}"
    made = runner_client.ask("POST", workspace, what, body=body, timeout=MOUNT_SECONDS)
    data = {"number": snapshot.number, "minutes": minutes, "host": made["host"]}
    lifecycle.record(workspace, by, "snapshot.opened_as_folder", data)
    return made


def close_folder(snapshot: Snapshot, *, by: Actor):
    """Close the folder. Problem 404 if it is not open."""
    what = f"snapshot-folders/{snapshot.number}"
    runner_client.ask("DELETE", snapshot.workspace, what, timeout=MOUNT_SECONDS)
    lifecycle.record(snapshot.workspace, by, "snapshot.closed_as_folder", {"number": snapshot.number})


def folder_of(snapshot: Snapshot) -> dict:
    """Return {"open": {snapshot, path, host, until} or None, "why_not": why it cannot be opened, or ""}.

    `until` is a datetime.
    """
    try:
        found = runner_client.ask("GET", snapshot.workspace, "snapshot-folders", timeout=ASK_SECONDS)
    except Problem as problem:
        return {"open": None, "why_not": problem.detail}
    for each in found["folders"]:
        each["until"] = datetime.fromisoformat(each["until"])
    opened = next((each for each in found["folders"] if each["snapshot"] == snapshot.number), None)
    return {"open": opened, "why_not": found["why_not"]}
