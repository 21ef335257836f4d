"""An envelope in words, for the card of a call."""

import posixpath

from django.utils.translation import gettext, gettext_lazy

WORDS = {
    "workspace": gettext_lazy("the workspace"),
    "toolchains": gettext_lazy("programs and libraries of the system"),
    "scratch": gettext_lazy("a private /tmp"),
    "caches": gettext_lazy("caches of package tools"),
    "loopback": gettext_lazy("ports of the workspace itself"),
    "hosts": gettext_lazy("hosts that the environment allows"),
}
BELOW = "/**"  # as in workspaces.envelope.names
LISTS = (
    ("read", gettext_lazy("Reads")),
    ("redacted", gettext_lazy("Reads, with values redacted")),
    ("write", gettext_lazy("Writes")),
    ("replaces", gettext_lazy("Makes, changes or replaces")),
    ("removes", gettext_lazy("Removes or moves away")),
    ("network", gettext_lazy("Reaches")),
)


def in_words(envelope: dict) -> list[tuple[str, str]]:
    """Return (label, what) of each list of the envelope."""
    return [
        (label, ", ".join(_entry_text(name, entry) for entry in envelope[name]) or gettext("nothing"))
        for name, label in LISTS
        if name in envelope
    ]


def _entry_text(name, entry):
    """Return one entry in words, with what has to be opened for it beyond itself."""
    if BELOW in entry:
        folder, _, below = entry.partition(BELOW)
        said = {"folder": folder, "name": below.lstrip("/")}
        if below:
            return gettext("each %(name)s in %(folder)s, at any depth, also protected ones") % said
        return gettext("anything in %(folder)s, also protected files") % said
    if name == "replaces":
        folder = posixpath.dirname(entry)
        return gettext("%(path)s (and new names in %(folder)s)") % {"path": entry, "folder": folder}
    return str(WORDS.get(entry, entry))
