"""Screenshots: a picture of a page for each snapshot, sent and read as the bytes of the image."""

from datetime import datetime

from django.http import HttpResponse
from ninja import Query, Router, Schema, Status

from dashboard.problems import not_found
from dashboard.web.api_base import PROBLEMS
from workspaces.api.lookup import CONTROLLED, find, number_of
from workspaces.changes import history
from workspaces.changes.diff.images import type_of
from workspaces.models import Snapshot
from workspaces.services.screenshots import keeping

router = Router(tags=["snapshots"])
PATH = "/workspaces/{key}/snapshots/{n}/screenshot"


class ScreenshotOut(Schema):
    kind: str
    width: int
    height: int
    bytes: int
    page: str
    created_at: datetime


@router.post(PATH, response={201: ScreenshotOut} | PROBLEMS)
def keep(
    request, key: str, n: str, page: str = Query("", max_length=keeping.MAX_PAGE, description="the address it shows")
):
    """Keep a picture of a page with a snapshot: the bytes of a PNG or JPEG image, up to 2 MiB. It replaces another."""
    snapshot = _snapshot(request, key, n, "keep_screenshot")
    return Status(201, keeping.save(snapshot, request.body, page=page, by=request.auth.actor))


@router.get(PATH, response={200: None} | PROBLEMS)
def read(request, key: str, n: str):
    """Return the image."""
    data = bytes(keeping.read(_snapshot(request, key, n)).data)
    if (kind := type_of(data)) not in keeping.KINDS:
        raise not_found("screenshot")
    name = f"{key}-{n}.{kind.removeprefix('image/')}"
    headers = CONTROLLED | {"Content-Disposition": f'attachment; filename="{name}"'}
    return HttpResponse(data, content_type=kind, headers=headers)


@router.delete(PATH, response={204: None} | PROBLEMS)
def remove(request, key: str, n: str):
    """Delete the picture of a snapshot."""
    keeping.remove(_snapshot(request, key, n, "keep_screenshot"), by=request.auth.actor)
    return Status(204, None)


def _snapshot(request, key: str, n: str, verb: str = "read") -> Snapshot:
    return history.find_snapshot(find(request, key, verb), number_of(n) or 0)
