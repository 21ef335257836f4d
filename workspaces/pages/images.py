"""Images of a comparison, as bytes that only an <img> of ours takes.

They never are a document of this site: the answer is an attachment under a sandboxing policy, and its type is one of
four, read from the bytes. SVG, which may hold scripts, is none of them.
"""

from django.http import Http404, HttpResponse

from dashboard.web.pages import RAW_POLICY
from workspaces.changes.diff.images import MAX_BYTES, type_of

__all__ = ["MAX_BYTES", "answer", "type_of"]


def answer(data: bytes) -> HttpResponse:
    """Answer with an image for an <img>. Http404 unless it is one that is shown."""
    kind = type_of(data)
    if not kind:
        raise Http404("not an image")
    headers = {
        "Content-Disposition": "attachment",
        "Content-Security-Policy": RAW_POLICY,
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "private, no-store",
    }
    return HttpResponse(data, content_type=kind, headers=headers)
