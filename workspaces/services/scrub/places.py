"""Where a value was found, and what a purge does there."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass

ROW, OUTPUT, SNAPSHOT, REHEARSAL, ARTIFACT, HOME, FILE, DOWNLOAD, SECRET = (
    "row",
    "output",
    "snapshot",
    "rehearsal",
    "artifact",
    "home",
    "file",
    "download",
    "secret",
)
MAX_LISTED = 1000  # places that an outcome names


@dataclass(frozen=True)
class Place:
    """One place. Its texts have the mark where they would have the value."""

    kind: str
    what: str  # for people: what it is
    name: str  # of the thing
    pk: str = ""
    workspace: str = ""  # key
    paths: tuple[str, ...] = ()  # of the first files, in a snapshot
    count: int = 1  # files in a snapshot, else 1
    url: str = ""
    why_kept: str = ""  # why a purge doesn't remove it; "" if it does

    def as_json(self) -> dict:
        return asdict(self)


def without_twins(places: list[Place], more: list[Place]) -> list[Place]:
    """Return those of `more` that are not in `places`: a program's output may be on two hosts and in the bucket.

    One that a purge removed is no twin of one that it left on another host.
    """
    known, found = {_identity(place) for place in places}, []
    for place in more:
        if not place.pk or _identity(place) not in known:
            found.append(place)
        known.add(_identity(place))
    return found


def _identity(place: Place) -> tuple:
    return place.kind, place.pk, place.why_kept


def outcome(places: list[Place], not_searched: Iterable[str]) -> dict:
    """Return places as the outcome of an operation: counts of all, the first by name."""
    counts = Counter(place.what for place in places)
    return {
        "total": len(places),
        "counts": dict(sorted(counts.items())),
        "places": [place.as_json() for place in places[:MAX_LISTED]],
        "not_searched": list(not_searched),
    }
