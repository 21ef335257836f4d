"""Random calls of programs, made of the tables in `words/`.

A line of `programs.txt` and `git.txt` is `name: option|option; operands`. Placeholders: @P a path, @W the same but more
often that of a canary, @N a number, @T a short text, @G a pattern of names, @C a command, @R a revision, @Q shell text,
@V a call of git, and @S @A @F @J @K a script of sed, awk, find, jq or SQL. `|` separates choices of an operand, and one
that ends in `?` may be left out.
"""

import re

from .spelling import lines

PLACE = re.compile(r"@([A-Z])")
SCRIPTS = {"S": "sed", "A": "awk", "F": "find", "J": "jq", "K": "sql"}


def _table(name):
    """Return {program: (options, operands)} of a file."""
    table = {}
    for line in lines(name):
        program, _, rest = line.partition(": ")
        options, _, operands = rest.partition(";")
        table[program] = ([text.strip() for text in options.split("|") if text.strip()], operands.split())
    return table


CALLS, VERBS = _table("programs"), _table("git")
NAMES, VERB_NAMES = list(CALLS), list(VERBS)
PLAIN, TEXTS, REVISIONS, SIMPLE = map(lines, ("plain", "texts", "revisions", "commands"))
LINES = {letter: lines(name) for letter, name in SCRIPTS.items()}


class Calls:
    """Makes calls of programs; `spelling` is a Spelling, and `shell` returns random shell text for @Q."""

    def __init__(self, chance, spelling, shell):
        self.chance = chance
        self.spelling = spelling
        self.shell = shell

    def call(self, name=None):
        """Return the text of a call of a program."""
        if not name and self.chance.random() < 0.6:
            words = self._filled(self.chance.choice(PLAIN))
        else:
            name = name or self.chance.choice(NAMES)
            words = [name, *self._arguments(*CALLS[name])]
        return " ".join(self.spelling.spelled(word, odd=0.07) for word in words if word)

    def _arguments(self, options, operands):
        chance, words = self.chance, []
        for _ in range(chance.choice([0, 0, 0, 1, 1, 1, 2, 3])):
            if options:
                words += self._filled(chance.choice(options))
        for operand in operands:
            if operand.endswith("?") and chance.random() < 0.6:
                continue
            words += self._filled(chance.choice(operand.rstrip("?").split("|")))
        if chance.random() < 0.05:
            chance.shuffle(words)
        return words

    def _filled(self, text):
        """Return the words of a piece of a table, its placeholders replaced."""
        if text == "git @V":
            return ["git", *self._filled("@V")]
        if text == "@V":
            verb = self.chance.choice(VERB_NAMES)
            before = self.chance.choice(
                [[]] * 12 + [["-C", "."], ["-C", "src"], ["-c", "core.pager=id"], ["--no-pager"], ["-p"]]
            )
            return [*before, verb, *self._arguments(*VERBS[verb])]
        if text in ("@F", "find @F"):
            return ["find"][: text != "@F"] + self._put(self.chance.choice(LINES["F"])).split(" ")
        if text[:2] == "@C":
            return self._put(text).split(" ")
        return [self._put(word) for word in text.split(" ")]

    def _put(self, text):
        return PLACE.sub(self._placed, text)

    def _placed(self, match):
        letter, chance = match[1], self.chance
        if letter in LINES:
            return self._script(letter)
        makers = {
            "P": lambda: self.spelling.path(0.04),
            "W": lambda: self.spelling.path(0.35),
            "N": lambda: chance.choice(["1", "2", "3", "10"]),
            "T": lambda: chance.choice(TEXTS),
            "G": lambda: chance.choice(["'*.md'", "*.txt", "'.e*'", "'*'", "src", '"*.py"', ".env"]),
            "R": lambda: chance.choice(REVISIONS),
            "C": lambda: chance.choice(SIMPLE),
            "Q": lambda: self._quoted(self.shell()),
        }
        return makers[letter]()

    def _script(self, letter):
        chance = self.chance
        lines = [
            PLACE.sub(self._bare, line) for line in chance.choices(LINES[letter], k=chance.choice([1, 1, 1, 2, 3]))
        ]
        if letter == "K":
            lines = lines[:1]
        joined = chance.choice(["\n", ";", " "] if letter != "J" else [" | ", ", "]).join(lines).replace("NL", "\n")
        return self._quoted(joined)

    def _bare(self, match):
        """Return what stands for a placeholder inside a script, where quotes would end it."""
        return self._placed(match).replace("'", "").replace('"', "")

    def _quoted(self, text):
        if "'" not in text and self.chance.random() < 0.85:
            return f"'{text}'"
        if self.chance.random() < 0.5:
            return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$").replace("`", "\\`") + '"'
        return "'" + text.replace("'", "'\\''") + "'"
