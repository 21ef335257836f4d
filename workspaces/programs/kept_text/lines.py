"""The lines of a text."""

from collections.abc import Iterable, Iterator

MAX_LINE = 64 * 1024**2  # bytes


class Refused(Exception):
    """A question without an answer; the message is a sentence for whoever asked."""


def lines_of(pieces: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines without their ends; what is no UTF-8 becomes U+FFFD. Raise Refused for one beyond MAX_LINE."""
    begun: list[bytes] = []
    size = 0
    for piece in pieces:
        first, *more = piece.split(b"\n")
        begun.append(first)
        size += len(first)
        if size > MAX_LINE:
            raise Refused(f"A line has more than {MAX_LINE // 1024**2} MB, which can't be searched.")
        if more:
            yield _text(b"".join(begun))
            yield from map(_text, more[:-1])
            begun, size = [more[-1]], len(more[-1])
    if rest := b"".join(begun):
        yield _text(rest)


def _text(line: bytes) -> str:
    return line.removesuffix(b"\r").decode("utf-8", "replace")
