"""Write trees as `.tar.zst`, with all the metadata that PAX headers can hold."""

import os
import tarfile
from collections.abc import Iterator
from typing import BinaryIO

import zstandard

from .content import pieces_of, stream_entry
from .diff import below
from .index.catalog import Catalog
from .objects import FIFO, FILE, FOLDER, LISTED, SYMLINK, Entry
from .progress import Watch

_TYPES = {FILE: tarfile.REGTYPE, FOLDER: tarfile.DIRTYPE, SYMLINK: tarfile.SYMTYPE, FIFO: tarfile.FIFOTYPE}
_LEVEL = 3
_BLOCK = 512


def write_archive(catalog: Catalog, root: Entry, out: BinaryIO, watch: Watch) -> int:
    """Write a tree to `out`, parents first and with relative names. Return the number of entries."""
    count = 0
    with zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).stream_writer(out, closefd=False) as packed:
        linked: dict[bytes, bytes] = {}
        for path, entry in below(catalog.folder, b"", root):
            if path and entry.kept:
                for piece in _member(catalog, path[1:], entry, linked):
                    packed.write(piece)
                    watch.check()
                watch.tick(1, entry.size if entry.kind == FILE else 0)
                count += 1
        packed.write(bytes(2 * _BLOCK))
    return count


def _member(catalog: Catalog, path: bytes, entry: Entry, linked: dict[bytes, bytes]) -> Iterator[bytes]:
    info = tarfile.TarInfo(os.fsdecode(path))
    info.type, info.mode, info.uid, info.gid = _TYPES[entry.kind], entry.mode, entry.uid, entry.gid
    info.pax_headers = {"mtime": f"{entry.mtime_ns // 10**9}.{entry.mtime_ns % 10**9:09d}"}
    if entry.mtime_ns < 0:  # a PAX time is a sign and an absolute value, not floor and remainder
        whole, part = divmod(-entry.mtime_ns, 10**9)
        info.pax_headers["mtime"] = f"-{whole}.{part:09d}"
    for name, value in entry.xattrs.items():
        info.pax_headers[f"SCHILY.xattr.{os.fsdecode(name)}"] = value.decode(errors="surrogateescape")
    if entry.kind == SYMLINK:
        info.linkname = os.fsdecode(entry.target)
    if entry.kind != FILE:
        yield _header(info)
        return
    if entry.link and entry.link in linked:
        info.type, info.linkname = tarfile.LNKTYPE, os.fsdecode(linked[entry.link])
        yield _header(info)
        return
    if entry.link:
        linked[entry.link] = path
    yield from _file(catalog, info, entry)


def _file(catalog: Catalog, info: tarfile.TarInfo, entry: Entry) -> Iterator[bytes]:
    pieces = pieces_of(catalog, entry) if entry.flags & LISTED else []
    if all(content is not None for _, content in pieces):
        info.size = entry.size
        yield _header(info)
        yield from stream_entry(catalog, entry)
    else:
        table = _sparse_table(pieces)
        data = sum(length for length, content in pieces if content is not None)
        folder, name = os.path.split(info.name)
        info.pax_headers |= {
            "GNU.sparse.major": "1",
            "GNU.sparse.minor": "0",
            "GNU.sparse.name": info.name,
            "GNU.sparse.realsize": str(entry.size),
        }
        info.name, info.size = os.path.join(folder, "GNUSparseFile.0", name), len(table) + data
        yield _header(info)
        yield table
        yield from (catalog.blob(content) for _, content in pieces if content is not None)
    yield bytes(-info.size % _BLOCK)


def _sparse_table(pieces: list[tuple[int, bytes | None]]) -> bytes:
    """Return the map of a GNU sparse 1.0 member: the number of data extents, then offset and length of each."""
    runs: list[list[int]] = []
    at = 0
    for length, content in pieces:
        if content is not None:
            if runs and sum(runs[-1]) == at:
                runs[-1][1] += length
            else:
                runs.append([at, length])
        at += length
    if not runs or sum(runs[-1]) < at:
        runs.append([at, 0])
    text = "\n".join([str(len(runs)), *(str(number) for run in runs for number in run)]).encode() + b"\n"
    return text + bytes(-len(text) % _BLOCK)


def _header(info: tarfile.TarInfo) -> bytes:
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
