"""Small texts that pages of several parts make, in the language of the request, and the version of all texts."""

import hashlib
import re
from functools import cache
from pathlib import Path

from django.apps import apps
from django.conf import settings
from django.utils.translation import gettext

IN_PLACE = re.compile(r"…sha256:[0-9a-f]{64}\Z")


@cache
def texts_version() -> str:
    """Return what changes with the compiled translations; part of the address under which browsers keep them."""
    places = [*settings.LOCALE_PATHS, Path(apps.get_app_config("dashboard").path, "locale")]
    found = sorted(path for place in places for path in place.glob("*/LC_MESSAGES/djangojs.mo"))
    return "-".join(f"{path.stat().st_size:x}-{path.stat().st_mtime_ns:x}" for path in found)


def and_last(parts: list[str]) -> str:
    """Join as "a, b and c"; "" if there are none."""
    if len(parts) < 2:
        return "".join(parts)
    return gettext("%(first)s and %(last)s") % {"first": ", ".join(parts[:-1]), "last": parts[-1]}


def bounded(name: str, limit: int) -> str:
    """Return a name that fits in `limit` characters, 72 at least; no two names have the same.

    The digest of a longer one stands for its end; so it does of one that looks as if that had been done.
    """
    if len(name) <= limit and not IN_PLACE.search(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name[: limit - 72]}…sha256:{digest}"
