"""Connected folders that were moved, deleted or unmounted: nothing of Handrail runs in them that would notice."""

import os
from pathlib import Path

from workspaces.models import StateCode, Workspace

GONE = "Its folder {} is not there: it was moved, deleted or unmounted. Put it back to continue; nothing was changed."
OTHER = "Another file system is mounted at {} now, or its own is not. Mount it again to continue; nothing was changed."


def away(connected: list[Workspace], devices: dict) -> dict:
    """Return {workspace: sentence} of those connected folders that are away, or "" for one that is back.

    `devices`: {workspace id: the file system that its folder was on when it was seen last}.
    """
    found = {}
    for workspace in connected:
        if words := _why_away(workspace, devices):
            found[workspace] = words
        elif workspace.reason_code in StateCode.out_of_reach():
            found[workspace] = ""
    return found


def _why_away(workspace, devices: dict) -> str:
    folder = Path(workspace.own_folder)
    try:
        device = folder.stat().st_dev
        with os.scandir(folder) as entries:
            is_empty = next(entries, None) is None
    except OSError:
        return GONE.format(folder)
    had_files = workspace.head is not None and workspace.head.entries > 1
    if devices.get(workspace.pk, device) != device or (is_empty and had_files and workspace.pk not in devices):
        return OTHER.format(folder)
    devices[workspace.pk] = device
    return ""
