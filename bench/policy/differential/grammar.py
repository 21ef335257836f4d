"""Random shell text: statements around calls of programs, from the forms in `words/shell.txt`.

Placeholders of the forms: @Z a statement, @L a list of them, @I a call with redirections, @C a bare call, @U a
statement that uses a variable, @D such a use, @K a variable that is set, @N one that is being set, @A an assignment, @V
and @W its value, @P and @Q a path, @S a word in an odd spelling, @M the items of a loop, @T a condition, and others
that stand for a line of a section.
"""

import random
import re

from .programs import Calls
from .spelling import Spelling, lines

PLACE = re.compile(r"@([A-Z])")
NAMES = ("x", "y", "f", "d", "opt", "P")
DEPTH = 3
LEAST = 40  # weight of a plain assignment among the others
# Sections by the letter that stands for one of their lines.
LETTERS = {
    "H": "document",
    "D": "used",
    "U": "using",
    "T": "test",
    "R": "pattern",
    "O": "operator",
    "Y": "unary",
    "G": "move",
    "F": "folder",
    "B": "after",
    "J": "function",
    "E": "number",
}
FORMS = ["group"] + ["condition"] * 2 + ["loop"] * 2 + ["case"] + ["tested"] * 2 + ["moved"] * 4
FORMS += ["defined", "arithmetic"] + ["odd"] * 5 + ["steps"] * 6
JOINTS = ("; ", "; ", "\n", " && ", " || ", " & ", " | ")


def _sections():
    """Return {name: lines} of the file of forms."""
    found, section = {}, []
    for line in lines("shell"):
        if re.fullmatch(r"\[[a-z]+\]", line):
            section = found.setdefault(line[1:-1], [])
        else:
            section.append(line)
    return found


SECTIONS = _sections()


def text_of(seed):
    """Return the command that a seed stands for; the same seed makes the same text."""
    return Shell(random.Random(f"grammar {seed}")).text()


class Shell:
    """Makes one command. Statements that come later use the variables that earlier ones set."""

    def __init__(self, chance):
        self.chance = chance
        self.spelling = Spelling(chance)
        self.calls = Calls(chance, self.spelling, self.inner)
        self.depth = 0

    def text(self):
        return self.joined(self.chance.choice([1, 1, 1, 1, 1, 2, 2, 3]))

    def joined(self, count):
        text = self.statement()
        for _ in range(count - 1):
            text += self.chance.choice(JOINTS) + self.statement()
        return text

    def inner(self):
        """Return text for a shell inside, which knows no variable of this one."""
        known, self.spelling.known = self.spelling.known, {}
        text = self.statement()
        self.spelling.known = known
        return text

    def statement(self):
        self.depth += 1
        roll = self.chance.random()
        if self.depth > DEPTH or roll < 0.45 + 0.15 * self.depth:
            text = self.simple()
        elif roll < 0.72:
            text = self.of("assigned") + self.chance.choice(["; ", "\n", " && ", " || "]) + self.of("using")
        else:
            text = self.of(self.chance.choice(FORMS))
        self.depth -= 1
        return text

    def simple(self):
        """Return a call with what may stand around it."""
        chance = self.chance
        text = self.calls.call()
        if chance.random() < 0.06:
            text = f"{self.of('wrapper')} {text}"
        if chance.random() < 0.02:
            text = f"{self.assignment()} {text}"
        while chance.random() < 0.1:
            text += " " + self.of("redirect")
        if chance.random() < 0.1:
            text += " | " + self.calls.call(self.of("piped"))
        return text

    def of(self, section):
        """Return a line of a section with its placeholders replaced."""
        return PLACE.sub(self._placed, self.chance.choice(SECTIONS[section]))

    def assignment(self):
        name, value = self.chance.choice(NAMES), self.of("value")
        forms = SECTIONS["assignment"]
        form = self.chance.choice(["@N=@W"] * LEAST + forms)
        self.spelling.known[name] = value
        values = {"N": name, "W": self.spelling.spelled(value, odd=0.12)}
        return PLACE.sub(lambda match: values.get(match[1], match[0]), form)

    def _placed(self, match):
        letter = match[1]
        if letter in LETTERS:
            return self.of(LETTERS[letter])
        return getattr(self, f"_{letter}")()

    def _Z(self):
        return self.statement()

    def _L(self):
        return self.joined(self.chance.choice([1, 1, 2]))

    def _I(self):
        return self.simple()

    def _C(self):
        return self.calls.call()

    def _A(self):
        return self.assignment()

    def _V(self):
        return self.of("value")

    def _K(self):
        return self.spelling.variable()

    def _N(self):
        """Return the name that a form uses throughout: that of the variable set last, mostly."""
        name = self.chance.choice(NAMES[:2])
        self.spelling.known[name] = ""
        return name

    def _P(self):
        return self.spelling.spelled(self.spelling.path(0.15), odd=0.15)

    def _Q(self):
        return self.spelling.path(0.4)

    def _S(self):
        return self.spelling.spelled(self.chance.choice(["a", "foo", "README.md", self.spelling.path()]), odd=1.0)

    def _M(self):
        return " ".join(self._P() for _ in range(self.chance.choice([1, 2, 3])))
