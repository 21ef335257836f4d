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
_SHELL = re.compile(rf"""['"‘]?([^\s'"‘’:]+)['"’]?: (?:({READ_ONLY})|{DENIED})\b""", re.IGNORECASE)
_PYTHON = re.compile(r"\[Errno (30|16|13|1)\] [^:\n]+: '([^'\n]+)'")
_NODE = re.compile(r"\b(EROFS|EBUSY|EACCES|EPERM): [^,\n]+, \w+ '([^'\n]+)'")


def sentence(blocked):
    """Return what to say of a held program that failed; its failure may have another cause."""
    shown = ", ".join(f"{entry['kind']} {entry['what']}" for entry in blocked[:MAX_SHOWN])
    return f"It ran held. Refused: {shown}." if shown else "It ran held; no refusal was seen."


def refusals_in(output):
    """Return [{kind, what}] of the files that an output says were refused: kind write or read."""
    text = output.decode("utf-8", "replace")
    found = [(ERRNOS[number], path) for number, path in _PYTHON.findall(text)]
    found += [(CODES[code], path) for code, path in _NODE.findall(text)]
    rest = _NODE.sub("", _PYTHON.sub("", text))
    found += [("write" if read_only else "read", path) for path, read_only in _SHELL.findall(rest)]
    return [{"kind": kind, "what": what[:MAX_PATH]} for kind, what in dict.fromkeys(found)][:MAX_SHOWN]
