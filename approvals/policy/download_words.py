"""Whether text that cannot be read as shell downloads something and runs it, as far as its words tell.

Each pattern is looked for once, from left to right, and only their places are compared: no pattern spans the text.
"""

import re

from . import fetchers

MOST = 20_000  # characters that are looked at
FETCHER = re.compile(r"(?<![\w.-])(?:curl|wget|wget2|aria2c|fetch|httpie|xh)(?![\w.-])|/dev/tcp/")
_SHELL = r"(?:(?:ba|z|da|k|a|fi)?sh|pwsh|eval|source)(?![\w.-])|[\"']?\$\{?(?:SHELL|BASH)\b"
_INTERPRETER = r"(?:python[23]?|node|perl|ruby|php)(?![\w.-])"
# With program text of its own an interpreter takes what it is given for data, unless that text runs it.
_READS = _INTERPRETER + r"(?!\s{1,9}-[a-z]{0,3}[cempr])"
SHELL = re.compile(rf"(?<![\w.-])(?:{_SHELL}|{_READS})")
ANY_SHELL = re.compile(rf"(?<![\w.-])(?:{_SHELL}|{_INTERPRETER})")
DOT = re.compile(r"(?<![\w.])\.(?=\s)")
PIPE = re.compile(r"(?<!\|)\|(?!\|)|>\(")
SUBSTITUTION = re.compile(r"\$\(|`|<\(")
OUTPUT = re.compile(r"(?:-o|-O|--output|>)[\s=]{0,9}([\w./~-]{1,200})")
STARTED = re.compile(rf"(?:(?:{_SHELL}|{_INTERPRETER})\s{{1,9}}|(?<![\w.])\.\s{{1,9}}|\./)([\w./~-]{{1,200}})")
# Of a function or a coprocess: the shell that reads what it prints may stand anywhere.
READER = r"(?:(?<!\|)\|(?!\|)[ \t]{0,9}(?:sudo[ \t]{1,9})?)"
STATEMENT = re.compile(r"[;\n]")


def plainly(text):
    """Return True if text that cannot be read downloads something and runs it, as far as its words tell."""
    text = text[:MOST]
    first = FETCHER.search(text)
    if not first:
        return False
    shell = ANY_SHELL if fetchers.runs(text) else SHELL
    if any(_in_statement(each, shell) for each in STATEMENT.split(text)):
        return True
    return _runs_output(text, first.start()) or _is_read(text, first.start(), shell)


def _in_statement(text, shell):
    """Return True for `curl … | sh` and `sh -c "$(curl …)"`, whatever stands between."""
    fetched, shells = _places(FETCHER, text), [*_places(shell, text), *_places(DOT, text)]
    if not (fetched and shells):
        return False
    pipes, inner = _places(PIPE, text), _places(SUBSTITUTION, text)
    piped = any(min(fetched) < at < max(shells) for at in pipes)
    return piped or any(min(shells) < at < max(fetched) for at in inner)


def _runs_output(text, start):
    """Return True if a file that is written after a download is started after that."""
    written = {}
    for match in OUTPUT.finditer(text, start):
        written.setdefault(match[1].removeprefix("./"), match.end())
    started = STARTED.finditer(text, start)
    return any(written.get(match[1].removeprefix("./"), len(text)) <= match.start() for match in started)


def _is_read(text, start, shell):
    """Return True if a shell that comes after a download reads a pipe or a descriptor."""
    for match in shell.finditer(text, start):
        before, after = text[max(match.start() - 30, 0) : match.start()], text[match.end() : match.end() + 12]
        if re.search(READER + "$", before) or re.match(r"[ \t]{0,9}<&", after):
            return True
    return False


def _places(pattern, text):
    return [match.start() for match in pattern.finditer(text)]
