"""Scripts of the workspace that a command runs: where the caller has read their text, it can make a call stricter.

The file can change before it runs, and what it starts is not read. So no script runs because of its text; but what is
critical or forbidden in it is, and rules that ask or forbid are matched with what it does.
"""

import re

from .. import impacts
from ..shell import Unreadable, reads_equally
from ..shell_words import OPAQUE, Word
from ..step_budget import TooMuch, limited
from .python_text import NotRead, opened_files

SHEBANG = re.compile(r"#![ \t]*(?:/usr)?/bin/(?:env[ \t]+)?(bash|sh|python3)[ \t]*\n")
MAX_STEPS = 60_000  # for one script
OPTIONS = re.compile(r"-[eux]+")  # of a shell, with which it reads a script as ever


def script_effects(script, spelled, judge, *, by="", arguments=None, shown=""):
    """Return the effects of a script, which a policy may trust like a program, or whose text may be known.

    `by`: the interpreter that reads it, "" for the one that its first line names. `arguments`: the words after it; None
    if its text does not tell what it does. `shown`: how messages call it, if not as written.
    """
    shown = (shown or script)[:80] if OPAQUE not in script else "a script that is unknown until it runs"
    # A bare name is a file of the current folder here, and was looked up as a program.
    if "/" in script and script in judge.world.trusted_programs:
        return [impacts.builds(f"runs {shown}, which the policy trusts")]
    inside = _inside(script, by, arguments, judge) if arguments is not None else []
    judge.of_scripts += inside
    worse = [effect for effect in inside if effect.tier in ("critical", "forbidden")]
    return [impacts.starts(f"runs {shown}, which can do anything", spelled), *worse]


def _inside(script, by, arguments, judge):
    """Return the effects of a script's text; none if it is not known, not read, or too much to judge."""
    within = list(judge.within)
    try:
        with limited(MAX_STEPS):
            return _read(script, by, arguments, judge)
    except TooMuch:
        return []
    finally:
        judge.within = within


def _read(script, by, arguments, judge):
    places = judge.places(Word(script))
    texts = {judge.world.texts.get(place.lexical) if place.inside else None for place in places}
    text = texts.pop() if len(texts) == 1 else None
    if text is None:
        return []
    shebang = SHEBANG.match(text)
    by = by or (shebang[1] if shebang else "")
    if by == "bash" or (by == "sh" and read_alike(text)):
        return judge.nested(text)
    return opened_by(by, text, arguments, judge) if by.startswith("python") else []


def read_alike(text):
    """Return True if bash reads a text as any POSIX shell does."""
    try:
        return reads_equally(text)
    except Unreadable:
        return False


def opened_by(name, text, arguments, judge):
    """Return the effects of program text for Python: the files that it opens, or that it may do anything.

    Its imports may be files of the folder that it runs in, or that it lies in.
    """
    folders = [judge.world.place(cwd, shell=True) for cwd in judge.simple.cwds]
    if not all(place.inside or place.trusted for place in folders):
        return [impacts.starts(f"runs program text through {name} in a folder outside the workspace")]
    known = [word.text if word.literal else None for word in arguments]
    try:
        opened = opened_files(text, known, may_be_old=name != "python3")
    except NotRead as error:
        return [impacts.starts(f"runs program text through {name} that {error}")]
    found = []
    for each in opened:
        for path in map(Word, each.paths):
            found += judge.reads(path) if each.reads else []
            found += judge.writes(path) if each.writes else []
    return found
