"""find: what it meets, deletes and starts programs with."""

from dataclasses import replace
from itertools import pairwise

from .. import impacts
from ..shell_words import Word, names
from .find_names import met_below, safe_names, standing_for
from .registry import handles

FIND_TESTS = {
    "-name": 1, "-iname": 1, "-path": 1, "-ipath": 1, "-wholename": 1, "-regex": 1, "-iregex": 1, "-regextype": 1,
    "-type": 1, "-xtype": 1, "-size": 1, "-mtime": 1, "-atime": 1, "-ctime": 1, "-mmin": 1, "-amin": 1, "-cmin": 1,
    "-newer": 1, "-maxdepth": 1, "-mindepth": 1, "-perm": 1, "-user": 1, "-group": 1, "-uid": 1, "-gid": 1,
    "-links": 1, "-inum": 1, "-printf": 1, "-empty": 0, "-print": 0, "-print0": 0, "-ls": 0, "-prune": 0, "-quit": 0,
    "-not": 0, "-and": 0, "-or": 0, "-a": 0, "-o": 0, "-true": 0, "-false": 0, "-depth": 0, "-xdev": 0, "-mount": 0,
    "-readable": 0, "-writable": 0, "-executable": 0, "-follow": 0, "-daystart": 0, "-noleaf": 0, "!": 0, "(": 0,
    ")": 0, ",": 0,
}  # fmt: skip
EXEC = ("-exec", "-execdir", "-ok", "-okdir")
WRITERS = ("-fprint", "-fprint0", "-fls", "-fprintf")
EVERY_FILE = Word("./*", glob=True)
HIDDEN_FILES = Word("./.*", glob=True)  # stands for names that may be those of secrets and protected files
# Programs that tell nothing of what is in a file.
WITHOUT_CONTENT = names(
    "ls wc stat du file basename dirname realpath readlink echo printf test [ md5sum sha1sum sha256sum cksum"
)


@handles("find")
def find(name, words, simple, judge):
    rest = list(words)
    while rest and rest[0].text in ("-H", "-L", "-P"):
        rest.pop(0)
    starts = []
    while rest and not rest[0].text.startswith(("-", "(", "!", ",")):
        starts.append(rest.pop(0))
    found = [e for start in starts or [Word(".")] for e in judge.reads(start, folder=judge.follows)]
    if any(start.opaque or start.splits for start in starts):
        found.append(impacts.unknown("searches folders that are unknown until it runs"))
    texts = [word.text for word in rest]
    while rest:
        word = rest.pop(0)
        test = word.text
        if test in (*EXEC, "-delete"):
            at = len(texts) - len(rest) - 1
            names_safe = safe_names(texts, FIND_TESTS, at)
            met = met_below(starts or [Word(".")], texts[:at], judge)
        if test in EXEC:
            rest, more = _exec(test, rest, names_safe, judge)
            if names_safe and _is_named(texts[:at]) and _all_inside(starts, judge):
                more = [_of_names(effect, judge) for effect in more]
            found += standing_for(more, met)
        elif test == "-delete":
            deleted = _delete(words, starts or [Word(".")], judge)
            if not names_safe:
                deleted += [e for e in judge.writes(HIDDEN_FILES, "deletes") if not starts or _is_top(starts, judge)]
            found += [replace(effect, opens=met) for effect in deleted]
        elif test in WRITERS:
            found += judge.writes(rest.pop(0)) if rest else []
            rest = rest[1:] if test == "-fprintf" else rest
        elif test in FIND_TESTS:
            values, rest = rest[: FIND_TESTS[test]], rest[FIND_TESTS[test] :]
            if any(value.glob or value.splits for value in values):
                found.append(impacts.unknown("has a pattern outside quotes, which may turn into options"))
        else:
            found.append(impacts.unknown(f"uses {test[:40]}, which is not a known harmless option of find"))
    return found


def _is_named(texts):
    """Return True if each file met has to have a name: no other expression may meet what has none."""
    if {"!", "-not", "-o", "-or", ",", "("} & {*texts}:
        return False
    return any(test in ("-name", "-iname") and value.strip("*?.") for test, value in pairwise(texts))


def _of_names(effect, judge):
    """Return the deletion of all files for that of the files which have a name, as `-delete` has it."""
    whole = effect.kind == "delete" and effect.place is not None and effect.place.lexical == f"{judge.world.root}/*"
    if not whole or effect.tier != "high":
        return effect
    return replace(effect, says="deletes files that have a certain name", held="runs")


def _all_inside(starts, judge):
    places = [place for start in starts or [Word(".")] for place in judge.places(start)]
    return all(place.inside for place in places) and not any(start.opaque or start.glob for start in starts)


def _is_top(starts, judge):
    return any(place.lexical == judge.world.root for start in starts for place in judge.places(start))


def _delete(words, starts, judge):
    """Return effects of `-delete`: after a name it needs the folder's Edit rule, alone it deletes everything."""
    named = any(w.text in ("-name", "-iname", "-path") and n.text.strip("*?/.") for w, n in pairwise(words))
    found = [e for start in starts for e in judge.writes(start, "deletes")]
    if not named:
        return found
    below = {e.target: f"deletes files below {e.target}" for e in found}
    found = [replace(e, title=f"Delete files below {e.target}") for e in found]
    return [replace(e, says=below[e.target], tier="medium") if e.undo == "yes" else e for e in found]


def _exec(flag, rest, names_safe, judge):
    """Split off the command between -exec and `;` or `+`, which runs for each file, and judge it like any other."""
    end = next(
        (i for i, w in enumerate(rest) if w.text == ";" or (w.text == "+" and rest[i - 1].text == "{}")), len(rest)
    )
    if not rest[:end]:
        return [], [impacts.unknown(f"uses {flag} without a command")]
    each = EVERY_FILE if names_safe or rest[0].text in WITHOUT_CONTENT else HIDDEN_FILES
    inner = [each if word.text == "{}" else word for word in rest[:end]]
    judge.also.append([word.text for word in rest[:end]])
    through = impacts.Effect("start", f"runs {inner[0].text[:40]} for each file", "low", spelled=(flag, inner[0].text))
    if any("{}" in word.text for word in inner):
        through = impacts.starts(f"builds a command from file names for {inner[0].text[:40]}")
    return rest[end + 1 :], [through, *judge.inner(inner)]
