"""Archives that callers send for a new workspace: kept for an hour, unpacked by the runner, never by web."""

import os
import time
import uuid
from pathlib import Path

from django.conf import settings

from dashboard.keys import make_private
from dashboard.problems import Problem, invalid
from workspaces import places
from workspaces.store import Limits

KEPT_SECONDS = 3600
LIMITS = Limits(bytes=settings.HANDRAIL_UNPACKED_BYTES, entries=settings.HANDRAIL_UNPACKED_ENTRIES)
_CHUNK = 1024 * 1024


def _folder(team_id) -> Path:
    return settings.HANDRAIL_HOME / "uploads" / str(team_id)


def receive(team_id, body) -> tuple[str, int]:
    """Keep what `body` (a file) holds as a new upload of the team: its id and size. Problem 413, 422, 507."""
    upload = uuid.uuid4().hex
    folder = make_private(_folder(team_id))
    fresh, size = folder / f".{upload}", 0
    try:
        with open(fresh, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            while chunk := body.read(_CHUNK):
                size += len(chunk)
                if size > settings.HANDRAIL_UPLOAD_BYTES:
                    raise Problem(413, f"An upload may have {settings.HANDRAIL_UPLOAD_BYTES:,} bytes.")
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        if not size:
            raise invalid("The upload is empty; send a tar (also .gz, .zst) as the raw body.")
        fresh.rename(folder / upload)
    except OSError as error:
        raise Problem(507, f"The upload could not be kept ({error.strerror}); nothing of it is.") from None
    finally:
        fresh.unlink(missing_ok=True)
    return upload, size


def find(team_id, upload: str) -> Path:
    """The archive, while it is kept. Problem 422 for one that is unknown, another team's, or too old."""
    path = _folder(team_id) / upload if len(upload) == 32 and upload.isalnum() else None
    if path is None or not path.is_file() or path.stat().st_mtime < time.time() - KEPT_SECONDS:
        raise invalid("There is no such upload; uploads are good for an hour.")
    return path


def sweep():
    """Drop those whose hour is over, and what was cut off in the middle."""
    places.drop_older(settings.HANDRAIL_HOME / "uploads", 2 * KEPT_SECONDS)
