"""awk: the harmless part of its language."""

import re

from .. import impacts
from ..shell_words import Word
from ..step_budget import spend
from .edits import edited_in_place
from .grammar import parse_table
from .registry import by_grammar, handles, kind
from .sed import bracket_text

OPTIONS = parse_table(
    """
    awk : -F=text -v=assign --posix --re-interval --csv : awk in*
    """,
    "reads",
)["awk"]


@handles("awk", "gawk", "mawk")
def awk(name, words, simple, judge):
    texts = [word.text for word in words]
    in_place = any(text in ("-iinplace", "--include=inplace") for text in texts) or "inplace" in texts
    edited = edited_in_place(name, [Word("-i"), *words], judge) if in_place else []
    return [*by_grammar(OPTIONS, name, words, simple, judge), *edited]


@kind("assign")
def assign(word, name, judge):
    return [] if re.match(r"[A-Za-z_]\w*=", word.text) else [impacts.unknown("assigns what is not a variable")]


@kind("awk")
def awk_program(word, name, judge):
    if word.opaque or word.splits:
        return [impacts.unknown("has a program that is unknown until it runs")]
    problem = awk_problem(word.text)
    return [impacts.unknown(f"has a program that {problem}")] if problem else []


AWK_TOKEN = re.compile(
    r'\s+|#[^\n]*|"(?:\\.|[^"\\\n])*"|[A-Za-z_]\w*|\d+\.?\d*|\+\+|--|\|\||&&|>>|[<>=!]=|.|\n', re.DOTALL
)
AWK_GOES_ON = (",", "||", "&&", "?", ":")  # a newline after them does not end the statement
AWK_BANNED = {"system", "getline", "close", "fflush", "ENVIRON", "PROCINFO", "ARGV", "ARGC", "SYMTAB", "FUNCTAB"}


def awk_problem(program):
    """Return what in an awk program writes, runs or leaks something, or None."""
    position, before, printing, depth = 0, "", False, 0
    while position < len(program):
        if program[position] == "/" and not _operand(before):
            if before in ("++", "--"):
                return "cannot be read with certainty"
            end = _awk_pattern(program, position + 1)
            if end is None:
                return "holds a pattern that cannot be read"
            position, before = end, "0"
            continue
        spend(2)
        match = AWK_TOKEN.match(program, position)
        token, position = match.group(), match.end()
        if (token.isspace() and "\n" not in token) or token.startswith("#"):
            continue
        if token in AWK_BANNED or token in ("@", "|", '"', "\\"):
            return f"uses {token}, which can run something or reach outside"
        depth += (token in "([") - (token in ")]") if len(token) == 1 else 0
        if token in ("print", "printf"):
            printing, depth = True, 0
        elif token in (";", "}", "{") or ("\n" in token and before not in AWK_GOES_ON):
            printing = False
        elif token in (">", ">>") and printing and depth <= 0:
            return "writes a file"
        before = token
    return None


def _awk_pattern(program, at):
    """Return the index after `/…/`, or None; a slash inside brackets ends it only in some awks, so it is None too."""
    start = at
    while at < len(program) and program[at] != "\n":
        spend(1)
        if program[at] == "/":
            return at + 1 if at > start else None
        if program[at] == "[":
            at = _awk_bracket(program, bracket_text(program, at))
            if at is None:
                return None
        else:
            at += 2 if program[at] == "\\" else 1
    return None


def _awk_bracket(program, at):
    while at < len(program) and program[at] not in "/\n":
        spend(1)
        if program[at] == "]":
            return at + 1
        at += 2 if program[at] == "\\" else 1
    return None


def _operand(token):
    if token in ("print", "printf", "return", "in", "case", "if", "while", "else", "do"):
        return False
    return token in (")", "]", "$") or bool(re.match(r'[A-Za-z_0-9."]', token))
