"""Python's own command line: scripts, modules, and program text that can be read."""

import re

from .. import impacts
from ..shell_words import names
from .grammar import parse_table
from .registry import HANDLERS, by_grammar, handles, paths_inside
from .scripts import opened_by, script_effects
from .tables import BUILDS

MODULES = {
    "pytest": "pytest", "unittest": "unittest", "mypy": "mypy", "ruff": "ruff", "black": "black", "isort": "isort",
    "flake8": "flake8", "pylint": "pylint", "tox": "tox", "nox": "nox", "py_compile": "mypy",
    "compileall": "mypy",
}  # fmt: skip
MANAGE = names(
    """
    test check makemigrations migrate showmigrations collectstatic diffsettings makemessages compilemessages
    sqlmigrate
    """
)


@handles("python", "python2", "python3")
def python(name, words, simple, judge):
    texts = [word.text for word in words]
    while texts[:1] and texts[0] in ("-u", "-B", "-q", "-s", "-I", "-E"):
        texts, words = texts[1:], words[1:]
    if texts in (["--version"], ["-V"], ["-VV"]):
        return []
    if texts[:1] == ["-m"] and len(texts) > 1:
        return _module(name, texts[1], words[2:], simple, judge)
    if texts[:1] in (["manage.py"], ["./manage.py"]) and len(texts) > 1 and texts[1] in MANAGE:
        return [
            impacts.builds(f"runs manage.py {texts[1]}, which runs the project's own code", texts[1]),
            *paths_inside(words[2:], judge),
        ]
    if texts[:1] == ["-c"] and len(texts) > 1 and words[1].literal and words[1].plain:
        return _program_text(name, texts[1], words[2:], judge)
    if texts[:1] in ([], ["-"]) and (text := _given_text(simple)) is not None:
        return _program_text(name, text, words[1:], judge)
    script = next((text for text in texts if not text.startswith("-")), None)
    if texts[:1] == ["-c"] or script is None:
        return [impacts.starts(f"runs program text through {name}")]
    plain = texts[0] == script and words[0].literal
    return script_effects(script, script, judge, by=name, arguments=words[1:] if plain else None)


def _given_text(simple):
    """Return the text of the one here-document or here-string that the command reads, or None."""
    inputs = [redirect for redirect in simple.redirects if redirect.op in ("<<", "<<<", "<", "<>", "<&")]
    if len(inputs) != 1 or inputs[0].op not in ("<<", "<<<") or inputs[0].fd not in ("", "0"):
        return None
    words = inputs[0].words
    certain = len(words) == 1 and words[0].literal and words[0].plain
    return words[0].text + ("\n" if inputs[0].op == "<<<" else "") if certain else None


def _program_text(name, text, arguments, judge):
    """Judge program text that works only on the files that it names by these."""
    found = opened_by(name, text, arguments, judge)
    if any(effect.kind == "start" for effect in found):
        return found
    return [impacts.Effect("start", f"runs program text through {name}", "medium", "yes"), *found]


def _module(name, module, words, simple, judge):
    if module == "json.tool":
        grammar = parse_table(
            "json.tool : --indent=num --sort-keys --no-ensure-ascii --compact --tab --json-lines : in? out?", "reads"
        )
        return by_grammar(grammar["json.tool"], module, words, simple, judge)
    if module == "pip":
        return HANDLERS["pip"]("pip", words, simple, judge)
    if module == "coverage":
        return coverage(module, words, simple, judge)
    if module in MODULES:
        return by_grammar(BUILDS[MODULES[module]], MODULES[module], words, simple, judge)
    if module == "http.server":
        odd = [word for word in words if not re.fullmatch(r"\d+|-[bd]|--bind|--directory|[\w./:-]+", word.text)]
        found = [impacts.unknown("serves files in a way that is not known")] if odd else paths_inside(words, judge)
        return [*found, impacts.builds("serves the files of its folder", module)]
    if module == "venv":
        return [e for word in words if not word.text.startswith("-") for e in judge.writes(word)]
    return [impacts.starts(f"runs the module {module[:60]}", module)]


@handles("coverage")
def coverage(name, words, simple, judge):
    """Judge coverage.py: `run -m module` runs a module of tests, the other verbs work on what was measured."""
    texts = [word.text for word in words]
    if texts[:2] == ["run", "-m"] and len(texts) > 2 and texts[2] in ("pytest", "unittest"):
        return _module(name, texts[2], words[3:], simple, judge)
    plain = all(text in ("-m", "--show-missing", "--skip-covered", "-q", "-i") for text in texts[1:])
    if texts[:1] in (["report"], ["combine"], ["erase"], ["xml"], ["html"], ["json"], ["lcov"]) and plain:
        return [impacts.builds(f"runs coverage {texts[0]}, which obeys the project's settings")]
    return [impacts.starts("runs a program under coverage")]
