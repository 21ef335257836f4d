"""Uploads that another host received: found at its runner, and copied here when they are needed.

A host that runs no runner hands each upload over to one that does, before it is acknowledged: its own disk is nobody's
to read. With HANDRAIL_BUCKET nothing of this is needed: all hosts find it there.
"""

import os
from contextlib import suppress
from pathlib import Path

from django.conf import settings

from dashboard.files.atomic_write import move_into_place
from dashboard.keys.key_files import make_private
from dashboard.problems import Problem, unavailable
from workspaces.host import leads
from workspaces.host.leads import Lead
from workspaces.operations import runner_client
from workspaces.provisioning import uploads

TIMEOUT_S = 600  # for an upload of the largest size between two hosts


def receive(team_id, body, *, by) -> tuple[str, int]:
    """Store an upload as `uploads.receive` does, where a runner finds it."""
    upload, size = uploads.receive(team_id, body, by=by)
    if "runner" in settings.HANDRAIL_PARTS or settings.HANDRAIL_BUCKET:
        return upload, size
    path = uploads.find(team_id, upload)
    try:
        _hand_over(team_id, path)
    finally:
        path.unlink()
    return upload, size


def _hand_over(team_id, path: Path):
    for lead in leads.others():
        with suppress(Problem), open(path, "rb") as file:
            runner_client.ask_runner("PUT", lead, _address(team_id, path.name), body=file, timeout=TIMEOUT_S)
            return
    raise unavailable("No host with a runner can be reached, so the upload was not kept. Try again.")


def is_kept(team_id, upload: str) -> bool:
    """Return True until the upload is deleted, wherever it is."""
    return uploads.is_kept(team_id, upload) or _holder_of(team_id, upload) is not None


def must_be_kept(team_id, upload: str):
    """Problem 422 unless the upload is kept."""
    if not is_kept(team_id, upload):
        uploads.find(team_id, upload)


def find(team_id, upload: str) -> Path:
    """Return the name of an upload for `shared_files.opened`, copied from another host if need be.

    Problem 422 if nobody has it.
    """
    if not uploads.is_kept(team_id, upload) and (lead := _holder_of(team_id, upload)) is not None:
        _copy(lead, team_id, upload)
    return uploads.find(team_id, upload)


def _holder_of(team_id, upload: str) -> Lead | None:
    if not uploads.is_name(upload):
        return None
    for lead in leads.others():
        with suppress(Problem):
            runner_client.ask_runner("GET", lead, f"{_address(team_id, upload)}/size")
            return lead
    return None


def _copy(lead: Lead, team_id, upload: str):
    path = make_private(uploads.folder_of(team_id)) / upload
    fresh = path.with_name(f".{upload}.{os.getpid()}")
    try:
        with open(fresh, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            for piece in runner_client.pieces_of_runner(lead, _address(team_id, upload), timeout=TIMEOUT_S):
                file.write(piece)
        move_into_place(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)


def _address(team_id, upload: str) -> str:
    return f"/uploads/{team_id}/{upload}"
