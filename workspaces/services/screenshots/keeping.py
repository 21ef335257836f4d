"""Keep a picture of a page with a snapshot: at most one for each, as long as the snapshot is there."""

from django.db.models import Sum

from dashboard.database import clock
from dashboard.models import Actor, Team
from dashboard.problems import Problem, conflict, invalid, not_found
from workspaces import lifecycle
from workspaces.changes.diff.images import size_of, type_of
from workspaces.lifecycle.states import must_not_be_trashed
from workspaces.models import Screenshot, Snapshot, Workspace

MAX_BYTES = 2 << 20  # of one picture
TEAM_BYTES = 256 << 20  # of all pictures of a team
MAX_PAGE = 500  # characters of the address
KINDS = ("image/png", "image/jpeg")


def save(snapshot: Snapshot, data: bytes, *, page: str = "", by: Actor) -> Screenshot:
    """Keep the picture in the place of the one that the snapshot has. Problem 409, 413 or 422.

    What kind of image it is, is read from its bytes, whatever its sender says.
    """
    must_not_be_trashed(snapshot)
    if len(data) > MAX_BYTES:
        raise Problem(413, f"The picture has {len(data):,} bytes; {MAX_BYTES:,} is the limit.")
    kind, size = type_of(data), size_of(data)
    if kind not in KINDS or size is None:
        raise invalid("Send a PNG or JPEG image.")
    workspace = snapshot.workspace
    with type(workspace.team).objects.turn(workspace.team_id):
        rows = Screenshot.objects.filter(snapshot__workspace__team=workspace.team_id).exclude(snapshot=snapshot)
        used = rows.aggregate(sum=Sum("bytes"))["sum"] or 0
        if used + len(data) > TEAM_BYTES:
            raise conflict(f"The team's screenshots have {used:,} bytes; {TEAM_BYTES:,} is the limit. Delete some.")
        Screenshot.objects.filter(snapshot=snapshot).delete()
        made = Screenshot.objects.create(
            snapshot=snapshot,
            kind=kind,
            width=size[0],
            height=size[1],
            bytes=len(data),
            data=data,
            page=page[:MAX_PAGE].replace("\0", "␀"),
            by=by.as_json,
            created_at=clock.now(),
        )
        _record(snapshot, "screenshot.kept", made, by)
    return made


def remove(snapshot: Snapshot, *, by: Actor):
    """Delete the picture of a snapshot. Problem 404 if it has none."""
    with Team.objects.turn(snapshot.workspace.team_id):
        found = Screenshot.objects.filter(snapshot=snapshot).defer("data").first()
        if found is None:
            raise not_found("screenshot")
        _record(snapshot, "screenshot.deleted", found, by)
        found.delete()


def read(snapshot: Snapshot) -> Screenshot:
    """Return the picture of a snapshot with its bytes. Problem 404 if it has none."""
    found = Screenshot.objects.filter(snapshot=snapshot).first()
    if found is None:
        raise not_found("screenshot")
    return found


def of(workspace: Workspace, numbers) -> dict[int, Screenshot]:
    """Return {number of its snapshot: picture, without its bytes} of those that have one."""
    rows = Screenshot.objects.filter(snapshot__workspace=workspace, snapshot__number__in=list(numbers))
    return {row.snapshot.number: row for row in rows.select_related("snapshot").defer("data")}


def _record(snapshot: Snapshot, verb: str, screenshot: Screenshot, by: Actor):
    data = {"snapshot": snapshot.number, "bytes": screenshot.bytes}
    lifecycle.record(snapshot.workspace, by, verb, data, subject=snapshot)
