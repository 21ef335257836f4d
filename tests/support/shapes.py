"""Sixty shapes of text that others write: each a piece that is repeated, or a long run within something short."""

import base64
import random

PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_PIECES = {
    "digits": "0",
    "letters": "a",
    "words": "permission denied and more words ",
    "short lines": "a\n",
    "ends of lines": "\n",
    "CRLF": "line\r\n",
    "carriage returns": "50 %\r",
    "blanks": " ",
    "tabs": "\t",
    "blanks and ends": "        \n",
    "ANSI colours": "\x1b[31mred\x1b[0m ",
    "unended ANSI": "\x1b[",
    "unended titles": "\x1b]0;",
    "control characters": "\x01\x08\x07\x7f",
    "lone surrogates": "\udcff",
    "accents": "e\u0301\u0302\u0303\u0304\u0305",
    "emoji": "👩‍👩‍👧‍👦",
    "right to left": "\u202eabc\u202c",
    "wide letters": "漢字",
    "addresses": "https://user:pass@host.example/path?q=1#x ",
    "colons": "a:",
    "assignments": "token=",
    "key beginnings": "-----BEGIN ",
    "keys": "sk-abcdefghijklmnop ",
    "refusals of a shell": "bash: /etc/x: Permission denied ",
    "refusals of Python": "[Errno 13] ",
    "refusals of Node": "EACCES: a, open '",
    "exit codes": "Exit code 1\n",
    "hunks": "@@ -1,3 +1,4 @@\n-a\n+b\n",
    "files of a patch": "diff --git a/x b/x\n--- a/x\n+++ b/x\n",
    "files of an applied patch": "*** Update File: x\n@@\n-a\n+b\n",
    "sections": '[branch "main"]\n\tremote = origin\n',
    "YAML": "- a: [b, {c: d}]\n",
    "anchors": "&a *a ",
    "nested brackets": "[",
    "nested items": "- ",
    "nested keys": "? ",
    "nested braces": '{"a":',
    "links": "[a](",
    "emphasis": "*a _b ",
    "code": "`a ``b ",
    "tags": "<a href=x ",
    "placeholders": "${",
    "substitutions": "$(echo ",
    "quoted words": "'a' \"b\" ",
    "backslashes and quotes": '\\"',
    "globs": "*a?",
    "paths": "../a/",
    "module paths": "node_modules/a/",
    "dots and dashes": "a.b-c_",
    "amounts": "1,299.00 EUR ",
    "identifiers": "ch_3Nx7",
    "statements": "select * from a; ",
    "times": "2026-11-28T10:00:00Z ",
    "headers": "x-a: b\r\n",
    "table": "a,b;c\td\n",
    "replacement": "\ufffd",
    "refusals of git": "fatal: repository 'a ",
}


def shapes(size: int) -> dict[str, str]:
    """Return {name: a text of about this many characters}."""
    random.seed(1)
    found = {name: (piece * (size // len(piece) + 1))[:size] for name, piece in _PIECES.items()}
    found["base64"] = base64.b64encode(random.randbytes(size * 3 // 4)).decode()
    found["binary"] = bytes(1 + byte % 255 for byte in random.randbytes(size)).decode("latin-1")
    found["invalid UTF-8"] = random.randbytes(size).replace(b"\0", b"\1").decode("utf-8", "surrogateescape")
    found["strings of a terminal without an end"] = "\x90" * (size - 2) + "\x1b["
    found["one line of JSON"] = '{"items": [' + ('{"id": 1, "name": "a b"}, ' * (size // 26)) + "1]}"
    found["a bundle"] = 'function a(b){return b?"x":c.d(e,f[0])}' * (size // 39)
    for mark in PUNCTUATION:
        found[f"a run of {mark}"] = mark * size
    return found
