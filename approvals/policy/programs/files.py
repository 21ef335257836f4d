"""find, archives, dd: programs that process many files."""

import re
from dataclasses import replace
from itertools import pairwise

from .. import impacts
from ..opens import everything_below
from ..shell_words import Word, names
from .edits import edited_in_place
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


TAR_SHORT = set("tcxrujzJvfkpwaOSmZ")
TAR_LONG = {"--list", "--extract", "--create", "--gzip", "--gunzip", "--bzip2", "--xz", "--zstd", "--verbose", "--get"}
TAR_LONG |= {"--auto-compress", "--no-same-owner", "--keep-old-files", "--totals", "--full-time", "--numeric-owner"}
TAR_LONG |= {"--wildcards", "--no-wildcards", "--anchored", "--no-anchored", "--exclude-vcs", "--keep-newer-files"}
TAR_VALUED = {"--file": "f", "--directory": "C", "--exclude": "", "--strip-components": ""}


@handles("tar", "bsdtar")
def tar(name, words, simple, judge):
    """Judge tar: listing reads the archive, creating reads files and writes it, extracting writes into one folder."""
    letters, archive, folders, operands, found = set(), None, [], [], []
    rest = list(words)
    if rest and re.fullmatch(r"[A-Za-z]+", rest[0].text):
        rest[0] = Word("-" + rest[0].text)
    while rest:
        word = rest.pop(0)
        flag, equals, value = word.text.partition("=")
        if flag in TAR_VALUED and (equals or rest):
            given = Word(value) if equals else rest.pop(0)
            archive = given if TAR_VALUED[flag] == "f" else archive
            folders += [given] if TAR_VALUED[flag] == "C" else []
        elif flag in TAR_LONG and not equals:
            letters.add({"--list": "t", "--extract": "x", "--get": "x", "--create": "c"}.get(flag, "v"))
        elif word.text == "-C" and rest:
            folders.append(rest.pop(0))
        elif re.fullmatch(r"-[A-Za-z]+", word.text) and set(word.text[1:]) <= TAR_SHORT:
            letters |= set(word.text[1:])
            if "f" in word.text:
                archive = rest.pop(0) if rest and word.text.endswith("f") else None
                found += [] if archive else [impacts.unknown("names its archive in a way that is not clear")]
        elif word.text.startswith("-"):
            found.append(impacts.unknown(f"uses {flag[:40]}, which is not a known harmless option of tar"))
        else:
            operands.append(word)
    if len(folders) > 1:
        found.append(impacts.unknown("goes to several folders, one from the other"))
    return found + _tar_effects(letters, archive, (folders or [None])[-1], operands, judge)


def _tar_effects(letters, archive, folder, operands, judge):
    remote = archive is not None and ":" in archive.text
    found = [impacts.unknown("uses an archive on another machine")] if remote else []
    if letters & {"x"}:
        found += judge.reads(archive) if archive else []
        return [*found, *unpacks(folder, judge)]
    if letters & {"c", "r", "u"}:
        found += judge.writes(archive) if archive else []
        found += judge.reads(folder) if folder else []
        return found + [e for word in operands for e in judge.reads(_in_folder(folder, word), folder=True)]
    if "t" in letters:
        return found + (judge.reads(archive) if archive else [])
    return [*found, impacts.unknown("uses tar in a way that is not known")]


def _in_folder(folder, word):
    """Return a path as a program reads it that went to `folder` before."""
    if folder is None or word.text.startswith("/"):
        return word
    return replace(word, text=f"{folder.text}/{word.text}", opaque=folder.opaque or word.opaque)


def unpacks(folder, judge):
    """Return effects of extracting unknown names: a rule can cover a separate folder, not the workspace root."""
    found = judge.writes(folder) if folder else []
    found = [replace(effect, title=f"Unpack files into {effect.target[:60]}") for effect in found]
    if folder is None or any(place.lexical == judge.world.root for place in judge.places(folder)):
        says, into = "unpacks files whose names are not known", everything_below(*judge.simple.cwds)
        found.append(impacts.Effect("write", says, "high", "yes", held="runs", opens=into))
    return found


@handles("unzip")
def unzip(name, words, simple, judge):
    texts = [word.text for word in words]
    flags = [t for t in texts if t.startswith("-")]
    if any(not re.fullmatch(r"-[lvtZ1oqnjdpc]+", flag) for flag in flags):
        return [impacts.unknown("uses an option of unzip that is not known")]
    operands = [w for w in words if not w.text.startswith("-")]
    found = judge.reads(operands[0]) if operands else []
    if any(set(flag) & set("lvtZpc") for flag in flags):
        return found
    folder = next((words[i + 1] for i, t in enumerate(texts[:-1]) if t == "-d"), None)
    return found + unpacks(folder, judge)


@handles("zip")
def make_zip(name, words, simple, judge):
    flags = [w.text for w in words if w.text.startswith("-")]
    operands = [w for w in words if not w.text.startswith("-")]
    if any(not re.fullmatch(r"-[rq9jyX0-9v]+", flag) for flag in flags) or not operands:
        return [impacts.unknown("uses zip in a way that is not known")]
    found = judge.writes(operands[0])
    return found + [e for word in operands[1:] for e in judge.reads(word, folder=True)]


@handles("patch")
def patch(name, words, simple, judge):
    if any(word.text == "--dry-run" for word in words):
        return [impacts.unknown("reads files that the patch names")]
    named = any(not word.text.startswith(("-", "+")) for word in words)
    into = () if named else everything_below(*judge.simple.cwds)
    written = impacts.Effect("write", "writes the files that the patch names", "high", "yes", held="runs", opens=into)
    return [written, *edited_in_place(name, words, judge)]


@handles("dd")
def dd(name, words, simple, judge):
    found = []
    for word in words:
        key, _, value = word.text.partition("=")
        if key == "of" and value.startswith("/dev/") and not judge.places(Word(value))[0].device:
            found.append(impacts.harmful(f"writes over the device {value}", "forbidden"))
        elif key in ("of", "if"):
            piece = Word(value, opaque=word.opaque)
            found += judge.writes(piece) if key == "of" else judge.reads(piece)
        elif key not in ("bs", "count", "skip", "seek", "status", "conv"):
            found.append(impacts.unknown(f"uses {word.text[:40]}, which is not a known operand of dd"))
    return found
