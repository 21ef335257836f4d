"""A command with the numbers of its sub-commands, as the policy's reasons count them."""

from typing import NamedTuple

from dashboard.text.visible_text import fold

BEFORE = frozenset(" \t\n;|&(`{!")  # what may stand before a sub-command, and after it
AFTER = frozenset(" \t\n;|&)`}<>")
MAX_PARTS = 40
TONES = {"low": "quiet", "medium": "quiet"}


class Part(NamedTuple):
    """A piece of the command. `number` is that of the sub-command which begins here; 0 if none does."""

    number: int
    tone: str
    text: str


def parts_of(command: str, steps: list[dict]) -> list[Part]:
    """Cut the command where its sub-commands begin; [] if one of them is not found in its place, or it is folded.

    The texts of the parts join to the command.
    """
    if not 1 < len(steps) <= MAX_PARTS or fold(command).middle:
        return []
    cuts, at = [], 0
    for step in steps:
        at = _place(command, str(step.get("text", "")), at)
        if at < 0:
            return []
        cuts.append(at)
        at += 1
    parts = [Part(0, "", command[: cuts[0]])] if cuts[0] else []
    for number, (start, end) in enumerate(zip(cuts, [*cuts[1:], len(command)], strict=True), 1):
        tier = steps[number - 1].get("tier")
        parts.append(Part(number, TONES.get(tier, "red" if tier == "forbidden" else "amber"), command[start:end]))
    return parts


def _place(command: str, text: str, at: int) -> int:
    """Return where the text stands as words of its own, from `at` on; -1 if nowhere."""
    while text and (at := command.find(text, at)) >= 0:
        end = at + len(text)
        if (at == 0 or command[at - 1] in BEFORE) and (end == len(command) or command[end] in AFTER):
            return at
        at += 1
    return -1
