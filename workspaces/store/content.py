"""Read one stored entry, in whole, in part or as a stream; only the blobs needed are loaded."""

from collections.abc import Iterator

from .errors import StoreError
from .index.catalog import Catalog
from .objects import EMPTY, FILE, LISTED, SYMLINK, Entry, decode_list

_ZEROS = bytes(1 << 20)


def pieces_of(catalog: Catalog, entry: Entry) -> list[tuple[int, bytes | None]]:
    """Return (length, content id or None for a hole) of each piece of a file."""
    if entry.kind != FILE or not entry.kept:
        reason = f"is a {entry.type} without content" if entry.kept else "was not stored"
        raise StoreError(f"{entry.name!r} {reason}")
    if entry.flags & LISTED:
        return decode_list(catalog.blob(entry.content))
    return [(entry.size, entry.content)] if entry.content != EMPTY else []


def stream_entry(catalog: Catalog, entry: Entry) -> Iterator[bytes]:
    """Yield a file's bytes in pieces, or the target of a symlink."""
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
    """Return `length` bytes from `offset`, or fewer at the end; the target bytes for a symlink."""
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
