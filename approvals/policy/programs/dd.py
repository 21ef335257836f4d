"""dd, which copies bytes from one file or device to another."""

from .. import impacts
from ..shell_words import Word
from .registry import handles


@handles("dd")
def dd(name, words, simple, judge):
    found = []
    for word in words:
        key, _, value = word.text.partition("=")
        if key == "of" and value.startswith("/dev/") and not judge.places(Word(value))[0].device:
            found.append(impacts.harmful(f"writes over the device {value}", "forbidden"))
        elif key in ("of", "if"):
            piece = Word(value, opaque=word.opaque)
            found += judge.writes(piece) if key == "of" else judge.reads(piece)
        elif key not in ("bs", "count", "skip", "seek", "status", "conv"):
            found.append(impacts.unknown(f"uses {word.text[:40]}, which is not a known operand of dd"))
    return found
