"""Parse the words of a sub-command, as the policy split them: its program, options and operands."""

from dataclasses import dataclass, field

from approvals.policy.programs.verbs import operands_of
from approvals.policy.shell_words import OPAQUE

BEFORE = {"timeout", "time", "nice", "nohup", "stdbuf", "command", "builtin", "env", "sudo", "doas", "ionice", "setsid"}


@dataclass
class Parsed:
    """`options` are [(name, value or None)] in order; `operands` are the remaining words."""

    options: list[tuple[str, str | None]] = field(default_factory=list)
    operands: list[str] = field(default_factory=list)

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.options)

    def values(self, *names: str) -> list[str]:
        return [value for name, value in self.options if name in names and value is not None]


def after(words: list[str], programs) -> tuple[str, list[str]] | None:
    """Return (program, arguments) if one of `programs` runs, directly or through a wrapper such as `timeout 5`."""
    for at, word in enumerate(words):
        name = word.rsplit("/", 1)[-1]
        if name in programs:
            return name, words[at + 1 :]
        if name not in BEFORE and not word.startswith("-") and "=" not in word and not word[:1].isdigit():
            return None
    return None


def git_verb(words: list[str]) -> str:
    """Return git's sub-command; "" if another program runs."""
    git = after(words, ("git",))
    operands = operands_of("git", git[1]) if git else None
    return operands[0] if operands else ""


def parse(words: list[str], with_value=()) -> Parsed:
    """Split as getopt does; `with_value` are options that take a value, such as "-r" or "--index-url"."""
    found, rest = Parsed(), list(words)
    short = {name[1] for name in with_value if len(name) == 2}
    while rest:
        word = rest.pop(0)
        if word == "--":
            found.operands += rest
            break
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            if not equals and name in with_value and rest:
                value, equals = rest.pop(0), "="
            found.options.append((name, value if equals else None))
        elif word.startswith("-") and len(word) > 1:
            _letters(found, word, short, rest)
        else:
            found.operands.append(word)
    return found


def _letters(found: Parsed, word: str, short: set, rest: list[str]):
    for at, letter in enumerate(word[1:], 1):
        if letter in short:
            value = word[at + 1 :] or (rest.pop(0) if rest else None)
            found.options.append((f"-{letter}", value))
            return
        found.options.append((f"-{letter}", None))


def is_known(word: str) -> bool:
    """Return False for a word with a part that is only known when the command runs."""
    return OPAQUE not in word
