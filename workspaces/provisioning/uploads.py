"""Archives uploaded for new workspaces: unpacked by the runner, never by the web process; retention deletes them."""

import hashlib
import os
import uuid
from pathlib import Path

from django.conf import settings

from dashboard.files.atomic_write import move_into_place
from dashboard.keys.key_files import make_private
from dashboard.problems import Problem, invalid
from dashboard.text.visible_text import plain_size
from workspaces.host import shared_files
from workspaces.provisioning import capacity
from workspaces.store import Limits, StoreError

MAX_KEPT_UPLOADS = 4  # quota of each caller, in uploads of the maximum size
LIMITS = Limits(bytes=settings.HANDRAIL_UNPACKED_BYTES, entries=settings.HANDRAIL_UNPACKED_ENTRIES)
_CHUNK = 1024 * 1024


def folder() -> Path:
    """Return the folder that has one of each team."""
    return settings.HANDRAIL_HOME / "uploads"


def folder_of(team_id) -> Path:
    return folder() / str(team_id)


def receive(team_id, body, *, by) -> tuple[str, int]:
    """Store the file `body` as a new upload of the team; return (id, bytes). Raise Problem 413, 422, 429 or 507."""
    capacity.refuse_new()
    owner = hashlib.sha256(f"{by.type}:{by.id}".encode()).hexdigest()[:12]
    upload = owner + uuid.uuid4().hex[12:]
    folder = make_private(folder_of(team_id))
    fresh, size = folder / f".{upload}", 0
    kept = _kept_of(folder, owner)
    try:
        with open(fresh, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            while chunk := body.read(_CHUNK):
                size += len(chunk)
                if size > settings.HANDRAIL_UPLOAD_BYTES:
                    raise Problem(413, f"An upload can have at most {settings.HANDRAIL_UPLOAD_BYTES:,} bytes.")
                if kept + size > MAX_KEPT_UPLOADS * settings.HANDRAIL_UPLOAD_BYTES:
                    used = plain_size(kept)
                    raise Problem(429, f"Upload quota exceeded: {used} used. Retention deletes uploads.")
                capacity.refuse_new()
                file.write(chunk)
        if not size:
            raise invalid("The upload is empty; send a tar (also .gz, .zst) as the raw body.")
        move_into_place(fresh, folder / upload)
        shared_files.keep(folder / upload, team_id)
    except StoreError as error:
        (folder / upload).unlink(missing_ok=True)
        raise Problem(507, f"The upload could not be stored: {error}.") from None
    except OSError as error:
        raise Problem(507, f"The upload could not be stored ({error.strerror}).") from None
    finally:
        fresh.unlink(missing_ok=True)
    return upload, size


def _kept_of(folder: Path, owner: str) -> int:
    """Return the total bytes of one caller's stored uploads, including those in progress."""
    return sum(found.size for found in shared_files.kept_in(folder) if found.path.name.lstrip(".").startswith(owner))


def find(team_id, upload: str) -> Path:
    """Return the archive's name for `shared_files.opened`; Problem 422 if it is unknown, another team's or deleted."""
    path = folder_of(team_id) / upload if is_name(upload) else None
    if path is None or not shared_files.is_kept(path):
        raise invalid("No such upload; uploads are deleted after the hours that the team's retention says.")
    return path


def is_name(upload: str) -> bool:
    """Return whether an upload could have this id."""
    return len(upload) == 32 and upload.isalnum()


def is_kept(team_id, upload: str) -> bool:
    """Return True until the upload is deleted."""
    try:
        return bool(find(team_id, upload))
    except Problem:
        return False
