"""sed: which commands of its language only print, and what the others write."""

import itertools
import re
import string
from dataclasses import replace

from .. import impacts
from ..step_budget import spend
from .grammar import parse_table, read_arguments
from .registry import handles

OPTIONS = parse_table(
    """
    sed : -n -E -r -s -u -z -e=sed -i=text? --expression=sed --quiet --silent --regexp-extended --posix --separate
        --null-data --in-place=text? --debug --line-length=num --unbuffered --sandbox : sed? edited*
    """,
    "reads",
)["sed"]
SED_PLAIN = "pPdDqQ=nNgGhHxzlF"
WHITE, DIGITS = " \t\n\r\f\v", string.digits
NAME = string.ascii_letters + string.digits + "_"


@handles("sed")
def sed(name, words, simple, judge):
    grammar = OPTIONS
    scripted = any(re.match(r"-[nErsuz]*e|--expression", w.text) for w in words)
    arguments, problems = read_arguments(grammar, words)
    edits = [a for a in arguments if a.option in ("-i", "--in-place")] or any(_in_place(w.text) for w in words)
    found = [impacts.unknown(says) for says, word in problems]
    operands = [a.word for a in arguments if not a.option]
    if edits and _of_bsd(words):
        # GNU's sed takes the empty word for a script or a file: it changes nothing by it, and the script is no file.
        operands = [word for at, word in enumerate(operands) if at or word.text]
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


def _of_bsd(words):
    """Return True for `sed -i '' …`, where sed as on macOS takes the empty word for the ending of the copies."""
    return any(flag.text == "-i" and word.literal and not word.text for flag, word in itertools.pairwise(words))


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
            close = script.find("]", bracket_text(script, at), line)
            unclosed, at = (line, at) if close < 0 else (unclosed, close)
        at += 1
    return None


def bracket_text(script, at):
    """Return the index from which `]` closes the bracket at `at`: directly after `[` or `[^` it is a literal."""
    at += 2 if script[at + 1 : at + 2] == "^" else 1
    return at + (script[at : at + 1] == "]")
