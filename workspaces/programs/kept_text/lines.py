"""The lines of a text."""

from collections.abc import Iterable, Iterator


class Refused(Exception):
    """A question without an answer; the message is a sentence for whoever asked."""


def lines_of(pieces: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines without their ends; what is no UTF-8 becomes U+FFFD."""
    begun: list[bytes] = []
    for piece in pieces:
        first, *more = piece.split(b"\n")
        begun.append(first)
        if more:
            yield _text(b"".join(begun))
            yield from map(_text, more[:-1])
            begun = [more[-1]]
    if rest := b"".join(begun):
        yield _text(rest)


def _text(line: bytes) -> str:
    return line.removesuffix(b"\r").decode("utf-8", "replace")
