"""Redact secret values in a stream: from standard input to standard output, until its end.

The first line of the input is JSON, a list of [name, value]; the rest is what a program prints.
"""

import json
import os
import select

from .record import REDACTION_DELAY_S
from .redact import Redactor

PIECE = 1 << 16


def main():
    first, rest = _first_line()
    redactor = Redactor((name, value) for name, value in json.loads(first))
    _write(redactor.feed(rest))
    while True:
        if redactor.waits and not select.select([0], [], [], REDACTION_DELAY_S)[0]:
            _write(redactor.flush())
            continue
        data = os.read(0, PIECE)
        if not data:
            _write(redactor.flush())
            return
        _write(redactor.feed(data))


def _first_line() -> tuple[bytes, bytes]:
    data = b""
    while b"\n" not in data:
        piece = os.read(0, PIECE)
        if not piece:
            raise SystemExit("the values to redact did not come")
        data += piece
    first, _, rest = data.partition(b"\n")
    return first, rest


def _write(data: bytes):
    while data:
        data = data[os.write(1, data) :]
