"""Points in time and paths, as the addresses of the Changes and Files tabs name them."""

from urllib.parse import unquote_to_bytes

from django.http import Http404, HttpResponse
from django.utils.translation import gettext

from workspaces.models import Snapshot
from workspaces.templatetags.workspace_words import snapshot_words

SHOWN_ENTRIES = 2000  # entries listed on one page


def points_of(workspace) -> list[tuple[str, str]]:
    """Return (value, label) of the points that can be compared, newest first."""
    rows = Snapshot.objects.filter(workspace=workspace).order_by("-number")[:200]
    named = [(str(s.number), f"{s.number} · {s.label or snapshot_words(s)}") for s in rows]
    return [("live", gettext("Now")), *named]


def parse_point(text: str, default):
    """Return a snapshot number or "live"; `default` for anything else."""
    if text == "live":
        return "live"
    return int(text) if text.isdecimal() and len(text) < 10 else default


def path_in(request, name: str = "path") -> bytes:
    """Return a path of the query as bytes; Django would replace percent-encoded bytes that are not UTF-8."""
    query = request.META.get("QUERY_STRING", "")
    raw = next((part.removeprefix(f"{name}=") for part in query.split("&") if part.startswith(f"{name}=")), "")
    return unquote_to_bytes(raw.replace("+", " ")).strip(b"/")


def refused_download(problem) -> HttpResponse:
    """Answer a download with a Problem's message as plain text; a Problem 404 becomes a 404 page."""
    if problem.status == 404:
        raise Http404(problem.detail)
    return HttpResponse(problem.detail + "\n", status=problem.status, content_type="text/plain; charset=utf-8")
