"""Which bytes are an image that pages show: one of four types, read from the bytes.

SVG, which may hold scripts, is none of them.
"""

from io import BytesIO

import imagesize

MAX_BYTES = 8 << 20
MAX_PIXELS = 50_000_000  # a browser takes four bytes for each
BEGINNINGS = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


def type_of(data: bytes) -> str:
    """Return the media type of an image that is shown; "" for all other bytes."""
    kind = next((kind for start, kind in BEGINNINGS.items() if data.startswith(start)), "")
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        kind = "image/webp"
    return kind if kind and len(data) <= MAX_BYTES and size_of(data) else ""


def size_of(data: bytes) -> tuple[int, int] | None:
    """Return (width, height) as the header says; None if that is damaged, or too large for a browser."""
    try:
        width, height = imagesize.get(BytesIO(data))
    except Exception:  # whatever a damaged header does to the reader: it is not shown
        return None
    return (width, height) if 0 < width * height <= MAX_PIXELS and width > 0 else None
