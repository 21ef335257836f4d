"""What the approval of a command opens beyond the medium envelope: names of files, and servers."""

from .verdict import ALLOWING

LISTS = ("read", "replaces", "removes", "network")


def opened(effects):
    """Return {list of an envelope: entries} for the effects of one sub-command, without empty lists."""
    found = {name: [] for name in LISTS}
    for effect in effects:
        found["replaces"] += effect.replaces
        found["network"] += [*effect.reaches, *(f"{host}:443" for host in effect.hosts)]
        place = effect.place
        if place is None or place.unclear or place.device or place.temporary:
            continue
        if effect.kind == "delete" or effect.moves:
            found["removes"].append(place.lexical)
        elif effect.kind == "write" and not _is_plain(place, effect):
            found["replaces"].append(place.lexical)
        if effect.kind in ("read", "write", "delete") and _shows_more(place, effect):
            found["read"].append(place.lexical)
    return {name: list(dict.fromkeys(entries)) for name, entries in found.items() if entries}


def _is_plain(place, effect):
    """Return whether the medium envelope lets it be written as it is."""
    return place.inside and effect.tier in ALLOWING


def _shows_more(place, effect):
    """Return whether its content is hidden from a program in the medium envelope that has to have it."""
    if effect.listed or (effect.kind == "read" and effect.held == "runs" and place.inside):
        return False  # names alone, or a folder in which the envelope masks the secrets
    return not _is_plain(place, effect) and not place.system
