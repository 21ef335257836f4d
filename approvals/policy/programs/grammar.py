"""A small language that describes a program's arguments, so that most programs are one line of `tables.py`.

A line is `name : options : operands`. A plain option takes no value, `-n=text` takes one of that kind; letters may be
bundled. Kinds: text (just text), num, in (a file that is read), out (a file that is written), dir (a folder that is
read), gone (a file that is deleted), host, code (runs what it is given). Operands are kinds in order, `*` for any
number, `?` for an optional one. `-D=!` is a loud option: a rule covers it only by spelling it out. `^` among the
options says that there are none behind the first operand. An unlisted option is not understood, so the command asks.
"""

import re
import textwrap
from dataclasses import dataclass, field, replace

from ..shell_words import HASH, OPAQUE

FILES = ("in", "out", "dir", "gone", "moved", "edit", "link", "code")
NUMBER = re.compile(r"[+-]?\d+[A-Za-z%]*")


@dataclass
class Grammar:
    """The arguments a program is known to take, and what running it amounts to (`nature`)."""

    name: str
    options: dict = field(default_factory=dict)
    operands: list = field(default_factory=list)
    nature: str = "reads"
    numeric: bool = False  # accepts -5 as an option
    any_flag: bool = False  # words that look like options are text
    options_first: bool = False  # behind the first operand there are no options
    single_dash: bool = False  # options are words after one dash, never bundled


@dataclass
class Argument:
    """One argument in its role: its kind, the word, and the option it belongs to, if any."""

    kind: str
    word: object
    option: str = ""


def parse_table(text, nature, program=""):
    """Parse lines into {name: Grammar}; for subcommands, `program` is the program they belong to."""
    table = {}
    # An indented line continues the one above.
    for line in re.sub(r"\n\s+", " ", textwrap.dedent(text).strip()).splitlines():
        name, options, operands = (part.strip() for part in [*re.split(r"\s:(?=\s|$)", line), "", ""][:3])
        grammar = Grammar(name, nature=nature, operands=operands.split())
        grammar.single_dash = nature == "single-dash"
        for option in options.split():
            flag, _, kind = option.partition("=")
            if flag == "-#":
                grammar.numeric = True
                continue
            if flag == "*":
                grammar.any_flag = True
                continue
            if flag == "^":
                grammar.options_first = True
                continue
            # A group such as -alh declares three options.
            if re.fullmatch(r"-[A-Za-z0-9]{2,}", flag) and not kind and not grammar.single_dash:
                for letter in flag[1:]:
                    grammar.options["-" + letter] = ""
            else:
                grammar.options[flag] = kind
        for each in name.split("|"):
            table[each.strip()] = replace(grammar, name=f"{program} {each.strip()}".strip())
    return table


def read_arguments(grammar, words):
    """Sort words into arguments. Return (arguments, problems); a problem is (sentence, word that caused it)."""
    arguments, problems, operands = [], [], []
    queue = list(words)
    while queue:
        word = queue.pop(0)
        text = word.text
        if text == "--" and word.literal:
            operands.extend(queue)
            break
        if not text.startswith("-") or text == "-" or grammar.any_flag:
            hashed = HASH in word.inner and grammar.name.startswith("git ")
            if text[:1] == OPAQUE and not (word.pipe or grammar.any_flag or hashed):
                problems.append((f"passes {grammar.name} text that may turn into an option", text))
            operands.append(word)
            if grammar.options_first:
                operands.extend(queue)
                break
            continue
        if grammar.numeric and NUMBER.fullmatch(text):
            continue
        if not (_long(grammar, word, queue, arguments) or _bundle(grammar, word, queue, arguments)):
            problems.append(
                (f"uses {text.split('=')[0][:40]}, which is not a known harmless option of {grammar.name}", text)
            )
    _assign_operands(grammar, operands, arguments, problems)
    return arguments, problems


def _long(grammar, word, queue, arguments):
    flag, equals, value = word.text.partition("=")
    if flag not in grammar.options:
        return False
    kind = grammar.options[flag]
    if kind == "!":
        arguments.append(Argument("loud", word, flag))
        return True
    optional = kind.endswith("?")
    kind = kind.rstrip("?")
    if equals:
        if not kind or not (flag.startswith("--") or grammar.single_dash):
            return False
        arguments.append(Argument(kind, _with_text(word, value), flag))
    elif kind == "pair":
        if len(queue) < 2:
            return False
        arguments.extend(Argument("text", queue.pop(0), flag) for _ in range(2))
    elif kind and not optional:
        if not queue:
            return False
        _take(grammar, kind, queue, flag, arguments)
    elif word.opaque:
        return False
    return True


def _bundle(grammar, word, queue, arguments):
    """Parse `-abc` or `-n5` letter by letter."""
    text = word.text
    if text.startswith("--") or grammar.single_dash:
        return False
    for index, letter in enumerate(text[1:], 1):
        flag = "-" + letter
        if flag not in grammar.options:
            return False
        kind = grammar.options[flag].rstrip("?")
        if kind == "!":
            arguments.append(Argument("loud", word, flag))
        elif kind:
            rest = text[index + 1 :]
            if rest:
                arguments.append(Argument(kind, _with_text(word, rest), flag))
            elif grammar.options[flag].endswith("?"):
                pass
            elif not queue:
                return False
            else:
                _take(grammar, kind, queue, flag, arguments)
            return True
    return True


def _with_text(word, text):
    return replace(word, text=text, inner=())


def _assign_operands(grammar, operands, arguments, problems):
    kinds = list(grammar.operands)
    given = {argument.option for argument in arguments}
    if kinds and kinds[0].startswith("pattern"):
        # grep's first operand is the pattern unless -e or -f gives one.
        kinds[0:1] = [] if given & {"-e", "-f", "--regexp", "--file"} else ["text"]
    for position, word in enumerate(operands):
        if not kinds:
            problems.append((f"has an argument that {grammar.name} is not known to take", word.text))
            return
        kind = kinds[0].rstrip("*?")
        following = len(kinds) > 1
        if kinds[0].endswith("*") and following and position == len(operands) - 1 and position > 0:
            kind = kinds[1].rstrip("*?")
        elif not kinds[0].endswith("*"):
            kinds.pop(0)
        arguments.append(Argument(kind, word))
        _spill(grammar, kind, word, arguments)
        if word.glob:  # its further matches take the next places
            arguments += [Argument(later.rstrip("*?"), word) for later in kinds if later.rstrip("*?") not in (kind, "")]


def _take(grammar, kind, queue, flag, arguments):
    """Take the next word as the value of an option."""
    word = queue.pop(0)
    arguments.append(Argument(kind, word, flag))
    _spill(grammar, kind, word, arguments)


def _spill(grammar, kind, word, arguments):
    """Add the other matches of a wildcard in the place of a text as files: only its first match is the text."""
    if not word.glob or kind in FILES:
        return
    taken = (operand.rstrip("*?") for operand in grammar.operands)
    spilled = next((operand for operand in taken if operand in FILES), None)
    if spilled:
        arguments.append(Argument(spilled, word))
