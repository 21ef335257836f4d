"""Read the settings of an outside witness of checkpoints. Imports only the standard library, as the settings use it."""

import ssl
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit


def read_witness(text: str) -> str:
    """Return the address of a time-stamping authority (RFC 3161), "" for an empty text. Raise ValueError."""
    if not text:
        return ""
    parts = urlsplit(text)
    _ = parts.port  # ValueError if it is no number
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or " " in text:
        raise ValueError(f"{text!r} is not an address of http or https")
    if find_spec("rfc3161_client") is None:
        raise ValueError("the package rfc3161-client is not installed (pip install handrail[witness])")
    return text


def read_certificates(text: str) -> str:
    """Return the absolute path of a PEM file with certificates, "" for an empty text. Raise ValueError."""
    if not text:
        return ""
    if not Path(text).is_absolute() or not Path(text).is_file():
        raise ValueError(f"{text!r} is not the absolute path of a file")
    try:
        ssl.create_default_context(cadata=Path(text).read_text())
    except (ssl.SSLError, ValueError, OSError):
        raise ValueError(f"{text!r} holds no certificates in PEM form") from None
    return text
