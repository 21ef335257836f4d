"""Small texts that pages of several parts make, in the language of the request, and the version of all texts."""

from functools import cache
from pathlib import Path

from django.apps import apps
from django.conf import settings
from django.utils.translation import gettext


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
