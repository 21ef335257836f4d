"""What the approval of a command opens beyond the medium envelope: names of files, and servers."""

from .verdict import ALLOWING

LISTS = ("read", "replaces", "removes", "network")


def opened(effects):
    """Return {list of an envelope: entries} for the effects of one sub-command, without empty lists."""
    found = {name: [] for name in LISTS}
    for effect in effects:
        found["network"] += [*effect.reaches, *(f"{host}:443" for host in effect.hosts)]
        entries = _entries(effect)
        if effect.kind == "delete" or effect.moves:
            found["removes"] += entries
        elif effect.opens or (effect.kind == "write" and not _is_plain(effect)):
            found["replaces"] += entries
        if effect.kind in ("read", "write", "delete") and _shows_more(effect):
            found["read"] += entries
    return {name: list(dict.fromkeys(entries)) for name, entries in found.items() if entries}


def everything_below(*folders):
    """Return the patterns of what is in some folders, which are not removed themselves."""
    return tuple(f"{folder.rstrip('/')}/**" for folder in folders)


def _entries(effect):
    place = effect.place
    if effect.opens is not None:
        return effect.opens
    if place is None or place.unclear or place.device or place.temporary:
        return ()
    return (place.lexical,)


def _is_plain(effect):
    """Return whether the medium envelope lets it be written as it is."""
    return effect.place is not None and effect.place.inside and effect.tier in ALLOWING


def _shows_more(effect):
    """Return whether its content is hidden from a program in the medium envelope that has to have it."""
    place = effect.place
    if place is None or effect.listed or (effect.kind == "read" and effect.held == "runs" and place.inside):
        return False  # names alone, or a folder in which the envelope masks the secrets
    return not _is_plain(effect) and not place.system
