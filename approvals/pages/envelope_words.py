"""An envelope in words, for the card of a call."""

from django.utils.translation import gettext, gettext_lazy

WORDS = {
    "workspace": gettext_lazy("the workspace"),
    "toolchains": gettext_lazy("programs and libraries of the system"),
    "scratch": gettext_lazy("a private /tmp"),
    "caches": gettext_lazy("caches of package tools"),
    "loopback": gettext_lazy("ports of the workspace itself"),
    "hosts": gettext_lazy("hosts that the environment allows"),
}
LISTS = (
    ("read", gettext_lazy("Reads")),
    ("redacted", gettext_lazy("Reads, with values redacted")),
    ("write", gettext_lazy("Writes")),
    ("network", gettext_lazy("Reaches")),
)


def in_words(envelope: dict) -> list[tuple[str, str]]:
    """Return (label, what) of each list of the envelope."""
    return [
        (label, ", ".join(str(WORDS.get(entry, entry)) for entry in envelope[name]) or gettext("nothing"))
        for name, label in LISTS
        if name in envelope
    ]
