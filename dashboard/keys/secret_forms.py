"""The encodings in which a secret's value appears: verbatim, base64, URL, JSON, and with a terminal's line ends.

Standard library only, like the host processes that use it.
"""

import base64
import json
import re
from urllib.parse import quote, quote_plus

MIN_BYTES = 8  # ; shorter values would match everywhere
LINE_WIDTHS = (64, 76)  # characters; where openssl and base64 break their lines
_LOWER = re.compile(rb"%[0-9A-F]{2}")


def encoded_forms(value: bytes) -> list[bytes]:
    """Return the encodings to search for, longest first; empty for a value of less than eight bytes."""
    if len(value) < MIN_BYTES:
        return []
    found = {value, *_in_json(value), *_in_urls(value), *_in_base64(value)}
    found |= {form.replace(b"\n", b"\r\n") for form in found if b"\n" in form and b"\r\n" not in form}
    return sorted(found, key=lambda form: (-len(form), form))


def _in_json(value: bytes) -> set[bytes]:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return set()
    return {json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode() for ascii_only in (True, False)}


def _in_urls(value: bytes) -> set[bytes]:
    forms = {quote(value, safe=safe).encode() for safe in ("", "/", "!'()*")} | {quote_plus(value).encode()}
    return forms | {_LOWER.sub(lambda found: found.group().lower(), form) for form in forms}


def _in_base64(value: bytes) -> set[bytes]:
    """Encode at each of the three alignments, without the characters that depend on neighbouring bytes."""
    found = set()
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + value)
        part = encoded[-(-8 * before // 6) : 8 * (before + len(value)) // 6]
        found |= {part, part.replace(b"+", b"-").replace(b"/", b"_")}
    aligned = base64.b64encode(value)[: 8 * len(value) // 6]
    for width in LINE_WIDTHS:
        if len(aligned) > width:
            found.add(b"\n".join(aligned[at : at + width] for at in range(0, len(aligned), width)))
    return found
