"""cp, mv, install and ln: what is read or moved, and every name that it gets at its destination."""

import posixpath
import re
from dataclasses import replace

from .. import impacts
from ..paths import fits_protected
from ..shell_words import Word
from ..verdict import TIERS, worst
from .grammar import read_arguments
from .registry import argument_effects, handles
from .tables import WRITES

TARGET = ("-t", "--target-directory")
WHOLE = re.compile(r"-[A-Za-z]*T[A-Za-z]*|--no-target-directory")
LINKS = re.compile(r"-[A-Za-z]*[ls][A-Za-z]*|--symbolic(?:-link)?|--link")
SYMBOLIC = re.compile(r"-[A-Za-z]*s[A-Za-z]*|--symbolic(?:-link)?")
RELATIVE = re.compile(r"-[A-Za-z]*r[A-Za-z]*|--relative")


@handles("cp", "mv", "install", "ln")
def copy(name, words, simple, judge):
    arguments, problems = read_arguments(WRITES[name], words)
    found = [impacts.unknown(sentence) for sentence, _ in problems]
    for argument in arguments:
        if argument.option and argument.option not in TARGET:
            found += argument_effects(argument, name, judge)
    operands = [argument.word for argument in arguments if not argument.option]
    folders = [argument.word for argument in arguments if argument.option in TARGET]
    flags = [word.text for word in words if word.text.startswith("-")]
    if name == "install" and any(re.fullmatch(r"-[A-Za-z]*d[A-Za-z]*", flag) for flag in flags):
        return found + [effect for word in operands for effect in judge.writes(word)]
    if folders:
        sources, goal = operands, folders[-1]
    elif len(operands) > 1:
        *sources, goal = operands
    else:
        sources, goal = operands, Word(".")
    links = name == "ln" or (name == "cp" and any(LINKS.fullmatch(flag) for flag in flags))
    verb = "links" if links else "moves" if name == "mv" else "copies"
    symbolic = links and any(SYMBOLIC.fullmatch(flag) for flag in flags)
    from_goal = symbolic and name == "ln" and not any(RELATIVE.fullmatch(flag) for flag in flags)
    for source in sources:
        if symbolic:
            found += _pointed_to(source, goal if from_goal else None, judge)
        else:
            # A file can be written through a link to it.
            found += judge.reads(source, folder=True) if verb == "copies" else judge.writes(source, verb)
        found += _secrets_moved(source, judge) if verb == "moves" and source.literal else []
    whole = any(WHOLE.fullmatch(flag) for flag in flags)
    written = judge.writes(goal, "links" if name == "ln" else "writes")
    within = [] if any(effect.tier != "medium" for effect in written) else _named(sources, goal, whole, judge)
    return [*found, *written, *within]


def _pointed_to(source, goal, judge):
    """Return the effects of a symlink on what it names: nothing is written there now, but can be through the link.

    `goal`: the operand that a relative text starts from, as the link itself or as its folder; None: where `ln` runs.
    """
    ends = [source]
    if goal is not None and source.literal and not source.text.startswith(("/", "~")):
        folders = dict.fromkeys((posixpath.dirname(goal.text.rstrip("/")), goal.text))
        ends = [replace(source, text=posixpath.join(folder, source.text)) for folder in folders]
    found = max((judge.writes(end, "links") for end in ends), key=lambda each: TIERS.index(worst(e.tier for e in each)))
    return [replace(effect, opens=(), target=effect.target and source.text) for effect in found]


def _secrets_moved(source, judge):
    """Return the effects of moving folders with secrets: rules and the text of later commands name the old paths."""
    held = [(place, judge.world.holds_secret(place.lexical)) for place in judge.places(source) if place.inside]
    return [
        impacts.Effect(
            "write",
            f"moves {place.label(judge.world.root)}, which holds {secret.rsplit('/', 1)[-1]}",
            "high",
            "yes",
            place.label(judge.world.root),
            held="runs",
        )
        for place, secret in held
        if secret
    ]


def _named(sources, goal, whole, judge):
    """Return the effects that ask among those of the names that the sources get in the folder `goal`."""
    found = []
    for source in sources:
        name = source.text.rstrip("/").rsplit("/", 1)[-1]
        merges = whole or source.opaque or source.text.endswith(("/.", "/", "/..")) or name in (".", "..", "")
        if merges or (source.glob and fits_protected(name)):
            at_top = any(place.lexical == judge.world.root for place in judge.places(goal))
            says = "copies files whose names are not known to the workspace's top folder"
            found += [impacts.Effect("write", says, "high", "yes")] if at_top else []
        elif goal.literal:
            inner = Word(f"{goal.text.rstrip('/') or '/'}/{name}", glob=source.glob)
            found += [effect for effect in judge.writes(inner) if effect.tier != "medium"]
    return found
