"""Refusals that a held program printed: the kernel tells nobody which file it refused but the program itself.

What a program prints is its own claim: this is shown to people and agents, and decides nothing.
"""

import re

READ_ONLY = "Read-only file system|Device or resource busy|Operation not permitted"
DENIED = "Permission denied"
CODES = {"EROFS": "write", "EBUSY": "write", "EPERM": "write", "EACCES": "read"}
ERRNOS = {"30": "write", "16": "write", "1": "write", "13": "read"}
MAX_SHOWN = 10
MAX_PATH = 300
MAX_READ = 1 << 16  # bytes of an output
# Each is anchored by fixed words and bounded after them, so that no output takes longer than its length.
_PHRASE = re.compile(rf": (?:({READ_ONLY})|{DENIED})\b", re.IGNORECASE)
_PYTHON = re.compile(r"\[Errno (30|16|13|1)\] [^:\n]{1,100}: '([^'\n]{1,4096})'")
_NODE = re.compile(r"\b(EROFS|EBUSY|EACCES|EPERM): [^,\n]{1,100}, \w{1,30} '([^'\n]{1,4096})'")
QUOTES = "'\"‘’"


def sentence(blocked):
    """Return what to say of a held program that failed; its failure may have another cause."""
    return f"It ran held. Refused: {in_short(blocked)}." if blocked else "It ran held; no refusal was seen."


def in_short(blocked):
    return ", ".join(f"{entry['kind']} {entry['what']}" for entry in blocked[:MAX_SHOWN])


def refusals_in(output):
    """Return [{kind, what}] of the files that the end of an output says were refused: kind write or read."""
    text = output[-MAX_READ:].decode("utf-8", "replace")
    found = [(ERRNOS[number], path) for number, path in _PYTHON.findall(text)]
    found += [(CODES[code], path) for code, path in _NODE.findall(text)]
    rest = _NODE.sub("", _PYTHON.sub("", text))
    found += [
        ("write" if said[1] else "read", path) for said in _PHRASE.finditer(rest) if (path := _before(rest, said))
    ]
    return [{"kind": kind, "what": what[:MAX_PATH]} for kind, what in dict.fromkeys(found)][:MAX_SHOWN]


def _before(text, said):
    """Return the last word before a refusal, without quotes: the path that a shell or a program of coreutils named."""
    head = text[max(0, said.start() - MAX_PATH - 1) : said.start()]
    if head[-1:] in QUOTES:
        head = head[:-1]
    if not head or head[-1].isspace():
        return ""
    word = head.split()[-1]
    return word[max(word.rfind(mark) for mark in f"{QUOTES}:") + 1 :]
