"""An envelope in words, for the card of a call."""

WORDS = {
    "workspace": "the workspace",
    "toolchains": "programs and libraries of the system",
    "scratch": "a private /tmp",
    "caches": "caches of package tools",
    "loopback": "ports of the workspace itself",
    "hosts": "hosts that the environment allows",
}
LISTS = (("read", "Reads"), ("redacted", "Reads, with values redacted"), ("write", "Writes"), ("network", "Reaches"))


def in_words(envelope: dict) -> list[tuple[str, str]]:
    """Return (label, what) of each list of the envelope."""
    return [
        (label, ", ".join(WORDS.get(entry, entry) for entry in envelope[name]) or "nothing")
        for name, label in LISTS
        if name in envelope
    ]
