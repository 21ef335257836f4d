"""The files that `find` visits: whether its names exclude secret and protected ones, and the changes made to each."""

import fnmatch
from dataclasses import replace
from itertools import pairwise

from ..opens import everything_below
from ..paths import MANIFEST, fits_protected, fits_secret
from ..step_budget import spend

NAMES = ("-name", "-iname")
PATHS = ("-path", "-ipath", "-wholename")
PRINTS = ("-print", "-print0", "-ls")


class _Level:
    """An expression in parentheses: `safe` of the and-list being read, and {safe, prints} of those before an `-o`."""

    def __init__(self):
        self.done, self.safe, self.prints, self.negated = [], False, False, False

    def close(self):
        self.done.append((self.safe, self.prints))
        self.safe = self.prints = self.negated = False

    def all_safe(self):
        """Return True if each and-list that prints is safe; without an explicit print, all do."""
        printing = [safe for safe, prints in self.done if prints] or [safe for safe, _ in self.done]
        return all(printing)


def safe_names(texts, arity, stop=None):
    """Return True if a name is asked for that no secret and no protected file has, wherever the word at `stop` runs.

    `texts` is the expression behind the folders, `arity` {test: number of its values}. Without `stop`, what is printed.
    """
    levels, at = [_Level()], 0
    while at < len(texts):
        spend(2)
        text, level = texts[at], levels[-1]
        if at == stop:
            return any(each.safe for each in levels)
        at += 1
        if text == "(":
            levels.append(_Level())
        elif text == ")" and len(levels) > 1:
            level.close()
            levels.pop()
            _met(levels[-1], level.all_safe())
        elif text in ("-o", "-or", ","):
            level.close()
        elif text in ("!", "-not"):
            level.negated = not level.negated
        elif text not in ("-a", "-and"):
            value = texts[at] if at < len(texts) else ""
            level.prints = level.prints or text in PRINTS
            _met(level, text in (*NAMES, *PATHS) and _safe(text, value))
            at += arity.get(text, 0)
    levels[0].close()
    return len(levels) == 1 and levels[0].all_safe()


def _met(level, safe):
    level.safe = level.safe or (safe and not level.negated)
    level.negated = False


def _safe(test, pattern):
    if test in PATHS:
        # A wildcard of a path crosses folders, so only what stands behind the last one is certain.
        end = max(pattern.rfind(sign) for sign in "*?[]")
        tail = pattern[end + 1 :]
        pattern = tail.rsplit("/", 1)[-1] if "/" in tail else f"*{tail}" if end >= 0 else tail
    return not (fits_secret(pattern) or fits_protected(pattern, hidden=True))


# Words that stand for the names that a list of files holds (`files.py`, `commands.py`).
STAND_INS = ("./*", "./.*")
GROUPS = ("(", ")", "-o", "-or", ",", "!", "-not")
# Tests of which nothing is known for one file.
OTHER_TESTS = ("-size", "-mtime", "-atime", "-ctime", "-mmin", "-amin", "-cmin", "-newer", "-perm", "-empty", "-regex")


def met_below(starts, texts, judge):
    """Return the paths and patterns (see opens) of what `find` meets below its folders before an action.

    `texts` is the expression up to that action.
    """
    name = _one_name(texts)
    found = []
    for start in starts:
        for place in judge.places(start):
            found += [f"{place.lexical.rstrip('/')}/**/{name}"] if name else everything_below(place.lexical)
            found += [place.lexical] if _meets_start(start, texts, name) else []
            manifest = f"{judge.world.root}/{MANIFEST}"
            if f"{manifest}/".startswith(f"{place.lexical}/") and _meets_manifest(start, place, manifest, texts):
                found.append(manifest)
    return tuple(found)


def standing_for(effects, paths):
    """Return the effects of a command on each name of a list, in whose place the envelope opens these paths."""
    return [
        replace(effect, opens=tuple(paths)) if effect.place is not None and effect.place.shown in STAND_INS else effect
        for effect in effects
    ]


def _one_name(texts):
    """Return the name that all must have which are met, as a pattern without brackets; "" if there is none."""
    if any(text in GROUPS for text in texts):
        return ""
    for test, value in pairwise(texts):
        if test == "-name" and not {"/", "[", "\\"} & set(value) and value.strip("*"):
            return value
    return ""


def _meets_start(start, texts, name):
    if start.text.rstrip("/") == "." or name or "-mindepth" in texts:
        return False
    return "d" in dict(pairwise(texts)).get("-type", "d")


def _meets_manifest(start, place, manifest, texts):
    """Return whether it plainly meets Handrail's manifest in the workspace, which nothing removes."""
    spelled = start.text.rstrip("/") + manifest[len(place.lexical) :]
    fits, negated = [], False
    for test, value in pairwise([*texts, ""]):
        if test in (*NAMES, *PATHS):
            is_name = test in NAMES
            text = manifest.rsplit("/", 1)[-1] if is_name else spelled
            fits.append(fnmatch.fnmatchcase(text, value) != negated)
        negated = test in ("!", "-not")
    if any(test in (*OTHER_TESTS, "-prune") for test in texts) or dict(pairwise(texts)).get("-maxdepth") in ("0", "1"):
        return False
    if any(test in ("-o", "-or", ",") for test in texts):
        return not fits or any(fits)
    return all(fits) and "f" in dict(pairwise(texts)).get("-type", "f")
