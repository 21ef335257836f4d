"""Spell a word in the many ways in which a shell reads it, and some in which one reader may and another may not.

A form of `words/spelling.txt` has @T for the word, @1 and @2 for it cut in two, @4 for its letter at the cut and @3 for
the rest, @X for it in escapes, @K for a variable that is set, and @P for a path.
"""

import re
from pathlib import Path

WORDS = Path(__file__).parent / "words"
PLACE = re.compile(r"@([TXKP1-4])")


def lines(name):
    """Return the lines of a file of words; NL in them stands for a line break."""
    return [line.replace("NL", "\n") for line in (WORDS / f"{name}.txt").read_text().splitlines()]


FORMS, PATHS, CANARIES, GLOBS = map(lines, ("spelling", "paths", "canaries", "globs"))


class Spelling:
    """Random spellings; `chance` is a random.Random, `known` the variables that the text has set: {name: value}."""

    def __init__(self, chance):
        self.chance = chance
        self.known = {}

    def path(self, wild=0.1):
        """Return a path, of a canary by the chance `wild`."""
        roll = self.chance.random()
        if roll < wild:
            return self.chance.choice(CANARIES)
        if roll < wild + 0.08:
            return self.chance.choice(GLOBS)
        return self.chance.choice(PATHS)

    def spelled(self, text, odd):
        """Return shell text for a word: as it is, or by the chance `odd` in another spelling."""
        if self.chance.random() >= odd or not text:
            return text
        bare = text.strip("'") or text
        at = self.chance.randrange(len(bare))
        parts = {"T": bare, "1": bare[:at], "2": bare[at:], "3": bare[at + 1 :], "4": bare[at]}

        def placed(match):
            letter = match[1]
            if letter in parts:
                return parts[letter]
            return {"X": lambda: self._escaped(bare), "K": self.variable, "P": self.path}[letter]()

        return PLACE.sub(placed, self.chance.choice(FORMS))

    def variable(self):
        return self.chance.choice(list(self.known) or ["x"])

    def _escaped(self, text):
        choices = ("{c}", "{c}", "\\x{n:02x}", "\\{n:03o}", "\\u{n:04x}")
        return "".join(self.chance.choice(choices).format(c=letter, n=ord(letter)) for letter in text)
