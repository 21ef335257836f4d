"""tar, zip and unzip: what they pack and which files they write."""

import re
from dataclasses import replace

from .. import impacts
from ..opens import everything_below
from ..shell_words import Word
from .registry import handles

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
