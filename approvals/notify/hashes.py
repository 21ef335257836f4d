"""The hash under which secrets and endpoints are stored and found."""

import hashlib


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()  # a lone surrogate has no bytes
