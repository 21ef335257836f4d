"""Refusals that a held program printed: the kernel tells nobody which file it refused but the program itself.

What a program prints is its own claim: this is shown to people and agents, and allows nothing.
"""

import re

from .tree_scan import is_secret

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
# A mask is another content than the one that git knows.
_OVERWRITTEN = re.compile(r"would be overwritten by [\w-]{1,20}:\n((?:\t[^\n]{1,4096}\n){1,100})")
# What git says behind a name, and patch, which names a file of its own beside the one that it changes.
_AFTER_A_NAME = re.compile(r"(?: for writing| for appending| mode \d{1,7}|(?<=\w)\.o\w{6} | )\Z")
QUOTES = "'\"‘’"
# Words behind which a program names a file without quotes; after others, a plain word is one of its sentence.
BEFORE_A_NAME = {"create", "open", "opening", "remove", "write", "writing", "unlink", "old", "touch", "rename", "move"}
BEFORE_A_NAME |= {"file", "folder", "directory", "to", "on", "over", "access", "stat", "lock", "replace"}
UNNAMED = "a file that its output does not name"


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
    masked = [line.strip() for listed in _OVERWRITTEN.findall(rest) for line in listed.splitlines()]
    found += [("write", path) for path in masked if _is_secret(path)]
    for said in _PHRASE.finditer(rest):
        path = _before(rest, said)
        if path or said[1]:
            found.append(("write" if said[1] else "read", path or UNNAMED))
    return [{"kind": kind, "what": what[:MAX_PATH]} for kind, what in dict.fromkeys(found)][:MAX_SHOWN]


def _is_secret(path):
    folder, _, name = path.lower().rpartition("/")
    return is_secret(folder.rpartition("/")[2], name, False)


def _before(text, said):
    """Return the path that a shell or a program of coreutils named before a refusal, without quotes; "" if none."""
    head = text[max(0, said.start() - MAX_PATH - 1) : said.start()].rpartition("\n")[2]
    head = _AFTER_A_NAME.sub("", head)
    if head and head[-1] in QUOTES:
        return head[max(head.rfind(mark, 0, -1) for mark in QUOTES) + 1 : -1]
    if not head or head[-1].isspace():
        return ""
    words = head.split()
    word = words[-1]
    path = word[max(word.rfind(mark) for mark in f"{QUOTES}:") + 1 :]
    before = words[-2].strip(QUOTES).lower() if len(words) > 1 else ":"
    if path != word or "/" in path or "." in path or before.endswith(":") or before in BEFORE_A_NAME:
        return path
    return ""
