"""Whether the names that `find` looks for leave out secrets and protected files."""

from ..paths import fits_protected, fits_secret
from ..step_budget import spend

NAMES = ("-name", "-iname")
PATHS = ("-path", "-ipath", "-wholename")
PRINTS = ("-print", "-print0", "-ls")


class _Level:
    """An expression in parentheses: `safe` of the and-list being read, and {safe, prints} of those before an `-o`."""

    def __init__(self):
        self.done, self.safe, self.prints, self.negated = [], False, False, False

    def close(self):
        self.done.append((self.safe, self.prints))
        self.safe = self.prints = self.negated = False

    def all_safe(self):
        """Return True if each and-list that prints is safe; without an explicit print, all do."""
        printing = [safe for safe, prints in self.done if prints] or [safe for safe, _ in self.done]
        return all(printing)


def safe_names(texts, arity, stop=None):
    """Return True if a name is asked for that no secret and no protected file has, wherever the word at `stop` runs.

    `texts` is the expression behind the folders, `arity` {test: number of its values}. Without `stop`, what is printed.
    """
    levels, at = [_Level()], 0
    while at < len(texts):
        spend(2)
        text, level = texts[at], levels[-1]
        if at == stop:
            return any(each.safe for each in levels)
        at += 1
        if text == "(":
            levels.append(_Level())
        elif text == ")" and len(levels) > 1:
            level.close()
            levels.pop()
            _met(levels[-1], level.all_safe())
        elif text in ("-o", "-or", ","):
            level.close()
        elif text in ("!", "-not"):
            level.negated = not level.negated
        elif text not in ("-a", "-and"):
            value = texts[at] if at < len(texts) else ""
            level.prints = level.prints or text in PRINTS
            _met(level, text in (*NAMES, *PATHS) and _safe(text, value))
            at += arity.get(text, 0)
    levels[0].close()
    return len(levels) == 1 and levels[0].all_safe()


def _met(level, safe):
    level.safe = level.safe or (safe and not level.negated)
    level.negated = False


def _safe(test, pattern):
    if test in PATHS:
        # A wildcard of a path crosses folders, so only what stands behind the last one is certain.
        end = max(pattern.rfind(sign) for sign in "*?[]")
        tail = pattern[end + 1 :]
        pattern = tail.rsplit("/", 1)[-1] if "/" in tail else f"*{tail}" if end >= 0 else tail
    return not (fits_secret(pattern) or fits_protected(pattern, hidden=True))
