"""Names that others chose, cut to a length. No Django here."""

import hashlib
import re

IN_PLACE = re.compile(r"…sha256:[0-9a-f]{64}\Z")


def bounded(name: str, limit: int) -> str:
    """Return a name that fits in `limit` characters, 72 at least; no two names have the same.

    The digest of a longer one stands for its end; so it does of one that looks as if that had been done.
    """
    if len(name) <= limit and not IN_PLACE.search(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name[: limit - 72]}…sha256:{digest}"
