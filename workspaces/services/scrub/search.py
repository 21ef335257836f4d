"""Search all that a team keeps for a value."""

from collections.abc import Callable, Iterable

from workspaces.services.scrub import downloads, programs, rows, stored
from workspaces.services.scrub.places import Place
from workspaces.services.scrub.value import Wanted
from workspaces.store import StoreError

Tick = Callable[[str, int], None]  # told what is searched and how many places were found; may raise to stop

NOT_SEARCHED = (
    "backups, and copies of the database made before an upgrade or by the hour",
    "the memory of paused microVMs, and checkpoints",
    "images, and what setups installed into them",
    "what git has packed, and other compressed files (single objects of git are unpacked)",
    "what went elsewhere: targets of the log, notifications, pushes, downloads",
)
STEPS = {
    "rows": "the database",
    "secrets": "encrypted values",
    "programs": "what programs printed",
    "snapshots": "snapshots",
    "downloads": "uploads and archives",
    "files": "files of live workspaces",
}


def search(team, wanted: Wanted, tick: Tick = lambda step, found: None) -> tuple[list[Place], list[str]]:
    """Return the places with the value, and what was not searched, in words. Files of live workspaces are extra."""
    places: list[Place] = []
    not_searched = list(NOT_SEARCHED)

    def collect(step: str, found: Iterable[Place]):
        tick(step, len(places))
        for place in found:
            places.append(place)
            tick(step, len(places))

    def ticking(step: str) -> Callable[[], None]:
        return lambda: tick(step, len(places))

    collect("rows", rows.find(team, wanted, ticking("rows")))
    collect("secrets", rows.find_encrypted(team, wanted))
    collect("programs", programs.find(team, wanted, ticking("programs")))
    try:
        if trees := stored.trees_of(team, wanted, ticking("snapshots")):
            collect("snapshots", stored.find(team, trees))
            not_searched += unread(trees)
    except StoreError as error:
        not_searched.append(f"snapshots: {error}")
    collect("downloads", downloads.find(team, wanted, ticking("downloads")))
    return places, not_searched


def unread(trees: stored.Trees) -> list[str]:
    return [f"{trees.unread} contents of snapshots that can't be read: check the store"] if trees.unread else []
