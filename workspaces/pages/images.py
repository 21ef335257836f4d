"""Images of a comparison, as bytes that only an <img> of ours takes.

They never are a document of this site: the answer is an attachment under a sandboxing policy, and its type is one of
four, read from the bytes. SVG, which may hold scripts, is none of them.
"""

from io import BytesIO

import imagesize
from django.http import Http404, HttpResponse

from dashboard.pages import RAW_POLICY

MAX_BYTES = 8 << 20
MAX_PIXELS = 50_000_000  # a browser takes four bytes for each
BEGINNINGS = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


def type_of(data: bytes) -> str:
    """Return the media type of an image that is shown; "" for all other bytes."""
    kind = next((kind for start, kind in BEGINNINGS.items() if data.startswith(start)), "")
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        kind = "image/webp"
    if not kind or len(data) > MAX_BYTES:
        return ""
    try:
        width, height = imagesize.get(BytesIO(data))
    except Exception:  # whatever a damaged header does to the reader: it is not shown
        return ""
    return kind if 0 < width * height <= MAX_PIXELS and width > 0 else ""


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
