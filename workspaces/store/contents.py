"""The bytes of one stored entry, whole, in part or as a stream, and no more of the store than that takes."""

from collections.abc import Iterator

from .catalog import Catalog
from .errors import StoreError
from .objects import EMPTY, FILE, LISTED, SYMLINK, Entry, decode_list

_ZEROS = bytes(1 << 20)


def pieces_of(catalog: Catalog, entry: Entry) -> list[tuple[int, bytes | None]]:
    """Return (length, content id or None for a hole) of each piece of a file."""
    if entry.kind != FILE or not entry.kept:
        raise StoreError(f"{entry.name!r} is a {entry.type} without content" if entry.kept else "it was not kept")
    if entry.flags & LISTED:
        return decode_list(catalog.blob(entry.content))
    return [(entry.size, entry.content)] if entry.content != EMPTY else []


def stream_entry(catalog: Catalog, entry: Entry) -> Iterator[bytes]:
    """Yield a file's bytes piece by piece; a symlink's target for a symlink."""
    if entry.kind == SYMLINK:
        yield entry.target
        return
    for length, content in pieces_of(catalog, entry):
        if content is not None:
            yield catalog.blob(content)
            continue
        for start in range(0, length, len(_ZEROS)):
            yield _ZEROS[: min(len(_ZEROS), length - start)]


def read_entry(catalog: Catalog, entry: Entry, offset: int = 0, length: int | None = None) -> bytes:
    """Return part of a file's bytes; past the end there is nothing."""
    if offset < 0 or (length is not None and length < 0):
        raise StoreError("offset and length must not be negative")
    if entry.kind == SYMLINK:
        return entry.target[offset : None if length is None else offset + length]
    pieces = pieces_of(catalog, entry)
    end = sum(size for size, _ in pieces) if length is None else offset + length
    parts, at = [], 0
    for size, content in pieces:
        start, stop = max(offset - at, 0), min(end - at, size)
        at += size
        if start < stop:
            parts.append(bytes(stop - start) if content is None else catalog.blob(content)[start:stop])
    return b"".join(parts)
