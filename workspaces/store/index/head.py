"""The head of a store: which packs and index segments make it up now. Its replacement is the commit."""

import json
from typing import NamedTuple

from blake3 import blake3

from ..errors import Damaged, StoreError

FORMAT = "handrail-store"
VERSION = 1


class Head(NamedTuple):
    """One state of the store. `packs` maps a pack number to its committed length in bytes.

    `id`, `names`, `holds` and `gone` are of stores on a bucket alone; times are in seconds since 1970.
    """

    generation: int = 0
    collected: int = 0  # incremented by each garbage collection: older caches may name removed objects
    next_pack: int = 1  # numbers are never reused, so that a reader cannot mistake one pack for another
    packs: dict[int, int] = {}
    segments: list[str] = []
    trees: dict[str, float] = {}  # trees of the last day: time of their commit
    id: str = ""  # of the store
    names: dict[int, str] = {}  # the file of each pack
    holds: dict[str, float] = {}  # tree -> until when no collection may take it
    gone: dict[str, float] = {}  # file that left the head -> when; removed a day later
    key: str = ""  # the id of the key that encrypts what is written, in hexadecimal; "" if nothing is encrypted

    def encode(self) -> bytes:
        fields = {key: value for key, value in self._asdict().items() if value or key not in _LEFT_OUT}
        body = json.dumps({"format": FORMAT, "version": VERSION, **fields}, separators=(",", ":")).encode()
        return body + b"\n" + blake3(body).hexdigest().encode() + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> "Head":
        try:
            body, checksum, _ = data.split(b"\n")
            fields = json.loads(body)
            if fields.pop("format") != FORMAT:
                raise ValueError("another format")
        except (ValueError, KeyError, AttributeError) as error:
            raise Damaged("the store's head is damaged; `reindex` rebuilds it from the packs") from error
        if (version := fields.pop("version", None)) != VERSION:
            raise StoreError(f"the store has format version {version}; this program supports version {VERSION}")
        if blake3(body).hexdigest().encode() != checksum:
            raise Damaged("the store's head is damaged; `reindex` rebuilds it from the packs")
        for numbered in {"packs", "names"} & fields.keys():
            fields[numbered] = {int(number): value for number, value in fields[numbered].items()}
        return cls(**fields)


_LEFT_OUT = ("id", "names", "holds", "gone", "key")  # where they are empty
