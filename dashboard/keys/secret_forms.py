"""The encodings in which a secret's value appears: verbatim, base64, URL, JSON, HTML, and with a terminal's line ends.

Standard library only, like the host processes that use it.
"""

import base64
import html
import json
import re
from urllib.parse import quote, quote_plus

MIN_BYTES = 8  # ; shorter values would match everywhere
LINE_WIDTHS = (64, 76)  # characters; where openssl and base64 break their lines
# What libraries escape in JSON as well: none, PHP's, that of Go and Rails, .NET's.
_JSON_ALSO = [
    str.maketrans(also)
    for also in (
        {},
        {"/": "\\/"},
        {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"},
        {"<": "\\u003C", ">": "\\u003E", "&": "\\u0026", "'": "\\u0027", "+": "\\u002B", "`": "\\u0060"},
    )
]
_LOWER = re.compile(rb"%[0-9A-F]{2}")


def encoded_forms(value: bytes) -> list[bytes]:
    """Return the encodings to search for, longest first; empty for a value of less than eight bytes."""
    if len(value) < MIN_BYTES:
        return []
    coded = _in_base64(value)
    found = {value, *_in_json(value), *_in_html(value), *_in_urls(value), *coded}
    found |= {form for part in coded for form in (*_in_json(part), *_in_urls(part))}  # with + and / escaped
    found |= {form.replace(b"\n", b"\r\n") for form in found if b"\n" in form and b"\r\n" not in form}
    return sorted(found, key=lambda form: (-len(form), form))


def _in_json(value: bytes) -> set[bytes]:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return set()
    forms = {json.dumps(text, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
    return {form.translate(also).encode() for form in forms for also in _JSON_ALSO}


def _in_html(value: bytes) -> set[bytes]:
    """Encode as pages do: quotes as Python and Go write them, or by name, or left alone."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return set()
    plain = html.escape(text, quote=False)
    quotes = [(double, single) for double in ("&quot;", "&#34;", '"') for single in ("&#x27;", "&#39;", "&apos;", "'")]
    return {plain.replace('"', double).replace("'", single).encode() for double, single in quotes}


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
