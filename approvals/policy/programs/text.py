"""sed, awk and jq: programs with a language of their own, whose harmless part is known."""

import re
import string
from dataclasses import replace

from .. import impacts
from ..shell_words import Word
from ..step_budget import spend
from .edits import edited_in_place
from .grammar import parse_table, read_arguments
from .registry import by_grammar, handles, kind

OPTIONS = parse_table(
    """
    sed : -n -E -r -s -u -z -e=sed -i=text? --expression=sed --quiet --silent --regexp-extended --posix --separate
        --null-data --in-place=text? --debug --line-length=num --unbuffered --sandbox : sed? edited*
    awk : -F=text -v=assign --posix --re-interval --csv : awk in*
    jq : -n -r -R -j -a -c -s -S -e -M -C --raw-output --compact-output --slurp --raw-input --null-input --sort-keys
        --exit-status --join-output --ascii-output --color-output --monochrome-output --tab --indent=num
        --arg=pair --argjson=pair : jq in*
    """,
    "reads",
)
SED_PLAIN = "pPdDqQ=nNgGhHxzlF"
WHITE, DIGITS = " \t\n\r\f\v", string.digits
NAME = string.ascii_letters + string.digits + "_"


PAGER = parse_table(
    "less : -# -NRSFXEeiIMmnr --quit-if-one-screen --no-init --RAW-CONTROL-CHARS --LINE-NUMBERS : in*", "reads"
)["less"]


@handles("less", "more")
def pager(name, words, simple, judge):
    """Judge a pager, which starts programs when a person at its terminal asks for that; without one it only prints."""
    shown = tuple(word.text for word in words if not word.text.startswith("-"))
    if any(word.text.startswith("+") for word in words):  # such as +!id: it starts by running a command of its own
        return [impacts.starts(f"gives {name} a command to run")]
    return [*by_grammar(PAGER, name, words, simple, judge), impacts.builds(f"shows a text with {name}", shown or name)]


@handles("sed")
def sed(name, words, simple, judge):
    grammar = OPTIONS["sed"]
    scripted = any(re.match(r"-[nErsuz]*e|--expression", w.text) for w in words)
    arguments, problems = read_arguments(grammar, words)
    edits = [a for a in arguments if a.option in ("-i", "--in-place")] or any(_in_place(w.text) for w in words)
    found = [impacts.unknown(says) for says, word in problems]
    operands = [a.word for a in arguments if not a.option]
    scripts = [a.word for a in arguments if a.kind == "sed" and a.option]
    if not scripted and operands:
        scripts, operands = [operands[0]], operands[1:]
    for script in scripts:
        problem = (
            "is unknown until it runs" if not script.literal and not _quoted_glob(script) else sed_problem(script.text)
        )
        if problem:
            found.append(impacts.unknown(f"has a script that {problem}"))
    for argument in arguments:
        if argument.option in ("-i", "--in-place") and re.search(r"[/*]", argument.word.text):
            found.append(impacts.unknown("keeps copies under a path of its own"))
    suffixes = [a.word.text for a in arguments if a.option in ("-i", "--in-place") and a.word.text and a.word.literal]
    for operand in operands:
        found += judge.writes(operand) if edits else judge.reads(operand)
        for suffix in suffixes:
            found += judge.writes(replace(operand, text=operand.text + suffix))
    return found


def _in_place(text):
    return text.startswith("--in-place") or re.match(r"-[nErsuz]*i", text) is not None


def _quoted_glob(word):
    return word.glob and not word.opaque and not word.pipe


def sed_problem(script):
    """Return why a sed script is not harmless, or None; only forms that are fully understood pass."""
    at = 0
    for _ in range(500):
        at = _past(script, at, " \t\n;")
        if at == len(script):
            return None
        at = _past(script, _addresses(script, at), " !")
        if at == len(script):
            return "cannot be read"
        command, at = script[at], at + 1
        if command in "{}":
            continue
        if command not in SED_PLAIN + "sybt:Taic":
            return f"uses the command {command}, which can run or write something"
        end = _sed_arguments(command, script, at)
        if end is None:
            return f"uses {command} in a way that is not known to be harmless"
        at = end
    return "is too long"


def _past(text, at, letters):
    """Return the first index from `at` on with none of these characters."""
    while at < len(text) and text[at] in letters:
        at += 1
    return at


def _addresses(script, at):
    """Return the index after the addresses `1`, `$`, `/x/I`, `1,5`, `1~2` or `1,+3`."""
    for _ in range(2):
        end = _address(script, at)
        if end == at:
            break
        at = _past(script, end, " ")
        if script[at : at + 1] != ",":
            break
        at = _past(script, at + 1, WHITE)
        at += script[at : at + 1] in ("+", "~")
    return at


def _address(script, at):
    if script[at : at + 1] == "$":
        return at + 1
    if script[at : at + 1] == "/":
        end = _delimited(script, at + 1, "/", brackets=False)
        return at if end is None else _past(script, end, "IM")
    end = _past(script, at, DIGITS)
    if end > at and script[end : end + 1] == "~" and script[end + 1 : end + 2].isdecimal():
        end = _past(script, end + 1, DIGITS)
    return end


def _sed_arguments(command, script, at):
    """Return the index after a command's arguments, or None if it is not certain."""
    if command in "sy":
        return _substitution(script, at)
    if command in "aic":
        return _text_lines(script, at)
    letters = DIGITS if command in SED_PLAIN else NAME
    return _command_end(script, _past(script, _past(script, at, WHITE), letters))


def _command_end(script, at):
    at = _past(script, at, " \t\r\f\v")
    return at if at == len(script) or script[at] in ";}\n" else None


def _text_lines(script, at):
    """Return the end of a text argument, which ends with its line unless a backslash continues it; None if unsure.

    After several backslashes some seds go on where others end, and a last one takes in the next `-e`.
    """
    while True:
        end = script.find("\n", at)
        line = script[at : len(script) if end < 0 else end]
        escapes = len(line) - len(line.rstrip("\\"))
        if escapes > 1 or (escapes and end < 0):
            return None
        if not escapes:
            return len(script) if end < 0 else end
        at = end + 1


def _substitution(script, at):
    """Return the index after `/a/b/g`, or None.

    A bracket expression may contain the delimiter: if the two ways to read it differ, the script asks.
    """
    mark = script[at : at + 1]
    if not mark or mark in "\\\n" or mark.isalnum():
        return None
    end = _delimited(script, at + 1, mark, brackets=False)
    if end is None or (mark not in "[]" and _delimited(script, at + 1, mark, brackets=True) != end):
        return None
    end = _delimited(script, end, mark, brackets=False)
    return None if end is None else _command_end(script, _past(script, end, "gpiIm" + DIGITS))


def _delimited(script, at, mark, *, brackets):
    """Return the index after the next unescaped delimiter on this line, or None."""
    unclosed = -1  # no bracket that opens before this index is closed
    while at < len(script) and script[at] != "\n":
        spend(1)
        char = script[at]
        if char == mark:
            return at + 1
        if char == "\\":
            at += 2
            continue
        if brackets and char == "[" and at > unclosed:
            line = script.find("\n", at)
            line = len(script) if line < 0 else line
            close = script.find("]", _bracket_text(script, at), line)
            unclosed, at = (line, at) if close < 0 else (unclosed, close)
        at += 1
    return None


def _bracket_text(script, at):
    """Return the index from which `]` closes the bracket at `at`: directly after `[` or `[^` it is a literal."""
    at += 2 if script[at + 1 : at + 2] == "^" else 1
    return at + (script[at : at + 1] == "]")


@handles("awk", "gawk", "mawk")
def awk(name, words, simple, judge):
    texts = [word.text for word in words]
    in_place = any(text in ("-iinplace", "--include=inplace") for text in texts) or "inplace" in texts
    edited = edited_in_place(name, [Word("-i"), *words], judge) if in_place else []
    return [*by_grammar(OPTIONS["awk"], name, words, simple, judge), *edited]


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
            at = _awk_bracket(program, _bracket_text(program, at))
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


@handles("jq")
def jq(name, words, simple, judge):
    return by_grammar(OPTIONS["jq"], name, words, simple, judge)


@kind("jq")
def jq_filter(word, name, judge):
    if word.opaque or word.splits:
        return [impacts.unknown("has a filter that is unknown until it runs")]
    if re.search(
        r"(?<![.\w\"])env\b|\$ENV|\b(?:import|include|input_filename|modulemeta|get_search_list)\b", word.text
    ):
        return [impacts.unknown("has a filter that reads the environment or other files")]
    return []
