"""Random changes of known commands: rows of the corpus, and calls of real sessions."""

import json
import random
import re

from .programs import Calls
from .spelling import CANARIES, PATHS, Spelling

TOKEN = re.compile(r"""\s+|[\w./~@%+:,=-]+|'[^']*'|"[^"]*"|\$\(|&&|\|\||;;|<<-?|>>|.""", re.DOTALL)
PATH = re.compile(r"(?:[\w.~-]*/)*[\w~-]+\.\w{1,4}|(?:[\w.~-]+/)+[\w.-]*")
MARKS = [
    "'",
    '"',
    "\\",
    "$",
    "`",
    ";",
    "&",
    "|",
    "(",
    ")",
    "{",
    "}",
    "\n",
    " ",
    "#",
    "!",
    "*",
    "?",
    "[",
    "]",
    "<",
    ">",
    "\\\n",
    "$x",
    "=",
    "~",
    "-",
    ",",
]
LONGEST = 1_500  # characters of a seed that is taken


def commands_of(*files):
    """Return the shell commands of files of JSON lines, in either of their forms."""
    found = {}
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            command = row["command"] if "command" in row else (row.get("input") or {}).get("command")
            if isinstance(command, str) and 0 < len(command) <= LONGEST and row.get("tool", "Bash") == "Bash":
                found.setdefault(command)
    return list(found)


def text_of(seed, commands):
    """Return one of the commands, changed; the same seed and commands make the same text."""
    chance = random.Random(f"mutation {seed}")
    text = _at_home(chance, chance.choice(commands))
    for _ in range(chance.choice([1, 1, 2, 2, 3, 5])):
        tokens = TOKEN.findall(text)
        if not tokens:
            break
        text = chance.choice(CHANGES)(chance, tokens, commands)
    return text[: 2 * LONGEST]


def _at_home(chance, text):
    """Replace paths by paths of the throw-away root, so that the command finds something."""
    return PATH.sub(lambda match: match[0] if chance.random() < 0.3 else _path(chance), text)


def _path(chance):
    return chance.choice(CANARIES if chance.random() < 0.1 else PATHS)


def _dropped(chance, tokens, commands):
    at = chance.randrange(len(tokens))
    return "".join(tokens[:at] + tokens[at + chance.choice([1, 1, 2, 3]) :])


def _doubled(chance, tokens, commands):
    at = chance.randrange(len(tokens))
    return "".join(tokens[: at + 1] + tokens[at:])


def _swapped(chance, tokens, commands):
    one, two = chance.randrange(len(tokens)), chance.randrange(len(tokens))
    tokens[one], tokens[two] = tokens[two], tokens[one]
    return "".join(tokens)


def _marked(chance, tokens, commands):
    text = "".join(tokens)
    at = chance.randrange(len(text) + 1)
    return text[:at] + chance.choice(MARKS) + text[at:]


def _joined(chance, tokens, commands):
    other = _at_home(chance, chance.choice(commands))
    return "".join(tokens) + chance.choice(["; ", " && ", " | ", "\n", " || ", " & "]) + other


def _spliced(chance, tokens, commands):
    other = TOKEN.findall(_at_home(chance, chance.choice(commands)))
    start = chance.randrange(len(other)) if other else 0
    at = chance.randrange(len(tokens))
    return "".join(tokens[:at] + other[start : start + chance.choice([1, 2, 3, 5])] + tokens[at:])


def _spelled(chance, tokens, commands):
    at = chance.randrange(len(tokens))
    if re.fullmatch(r"[\w./-]+", tokens[at]):
        tokens[at] = Spelling(chance).spelled(tokens[at], odd=1.0)
    return "".join(tokens)


def _placed(chance, tokens, commands):
    at = chance.randrange(len(tokens))
    if re.fullmatch(r"[\w./-]+", tokens[at]):
        tokens[at] = _path(chance)
    return "".join(tokens)


def _called(chance, tokens, commands):
    """Put a call of a program in front, behind or inside."""
    call = Calls(chance, Spelling(chance), lambda: "id").call()
    text = "".join(tokens)
    return chance.choice(
        ["{c}; {t}", "{t}; {c}", "{c} | {t}", "{t} | {c}", "{t} $({c})", "({t}); {c}", "{t} && {c}"]
    ).format(t=text, c=call)


CHANGES = [
    _dropped,
    _doubled,
    _swapped,
    _marked,
    _marked,
    _joined,
    _spliced,
    _spliced,
    _spelled,
    _spelled,
    _placed,
    _placed,
    _called,
    _called,
]
