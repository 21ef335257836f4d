"""Groups of pending actions, for one answer to all of them.

A group has one agent, one tool, one tier and one prospect of an undo: shell calls with the same programs and verbs,
edits of files in one folder. Its actions are alike if their calls differ in nothing but numbers and identifiers: the
same statement, object, host and currency. Where they are not, the group is offered with nothing ticked. What needs two
people is in no group, and neither are the questions and plans of agents.
"""

import re
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from numbers import Number
from pathlib import PurePosixPath

from django.utils.translation import gettext

from approvals import own_questions
from approvals.evaluation import content, current
from approvals.models import Action
from approvals.policy.deeds import PLACES, moves_money

MIN_ALIKE = 3
MAX_ANSWERED = 100  # actions with one answer
MAX_SHOWN = 2_000  # bytes of a call that are shown in a group; a longer one is decided on its own card
FILE_TOOLS = ("Edit", "MultiEdit", "Write", "NotebookEdit", "Handrail.Remove")
MAX_VERBS = 6
OUTWARD = ("network", "remote")  # kinds of sub-command whose names are the hosts that it reaches
# What is compared as it is, and numbers and identifiers, which may differ among actions that are alike.
HOST = (
    r"//[^/\s'\"]+|[\w.+-]+@[\w.-]+(?::\d+)?|\[[0-9a-fA-F:.]+\](?::\d+)?|\d+(?:\.\d+){3}(?::\d+)?|(?<![\w/.-])"
    r"(?=[\w.-]*[A-Za-z])[\w-]+(?:\.[\w-]+)+(?::\d+)?|(?<![\w/.-])[A-Za-z][\w-]*:\d+"
)
UUID = r"(?<!\w)[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?!\w)"
VARYING = re.compile(rf"(?P<host>{HOST})|{UUID}|\d+(?:[.,]\d+)*")
VARYING_IN_SQL = re.compile(rf"(?P<host>{HOST})|{UUID}|(?<!\w)\d+(?:[.,]\d+)*(?!\w)")  # a table's name is exact
SQL = re.compile(r"(?i)\b(?:select|insert|update|delete|drop|truncate|alter|create|grant|revoke|merge|replace|call)\s")
IDENTIFIER = re.compile(r"([a-z]{2,4}_)[A-Za-z0-9]*\d[A-Za-z0-9]*")  # a value such as ch_3Nx7
AMOUNT = re.compile(r"(?<![\w.,])(\d[\d,]*(?:\.\d+)?) ([A-Z]{3})\b")  # in a title: 1,299.00 EUR


@dataclass(frozen=True)
class Group:
    """Actions with one answer, what to call them ("git push", "Edit in docs/"), and whether they are alike."""

    label: str
    actions: tuple
    is_alike: bool


def groups_of(actions) -> list[Group]:
    """Return the groups of at least MIN_ALIKE among the actions, the largest first. Revisions are prefetched."""
    found: dict[tuple, list[Action]] = {}
    for action in actions:
        if action.quorum == 1 and action.tool not in own_questions.TOOLS:
            found.setdefault(kind_of(action), []).append(action)
    groups = [Group(kind[-1], tuple(each), are_alike(each)) for kind, of in found.items() for each in split(of)]
    return sorted((each for each in groups if len(each.actions) >= MIN_ALIKE), key=lambda group: -len(group.actions))


def split(actions: list[Action]) -> list[list[Action]]:
    """Return the actions of one kind as the sets of at least MIN_ALIKE that are alike, and the rest."""
    form = {action.pk: form_of(action) for action in actions}
    count = Counter(form.values())
    parts: dict[object, list[Action]] = {}
    for action in actions:
        mine = form[action.pk]
        parts.setdefault(mine if count[mine] >= MIN_ALIKE else None, []).append(action)
    return list(parts.values())


def are_alike(actions) -> bool:
    return len({form_of(action) for action in actions}) == 1


def kind_of(action: Action) -> tuple:
    """Return what the actions of a group have in common; the last part is the label of their group."""
    what = _what(action)
    return action.team_id, action.agent_id, action.tool, action.tier, action.undo, what


def form_of(action: Action) -> tuple:
    """Return what is equal in actions that are alike: their call without its numbers, and the hosts it reaches."""
    found, steps = content(action), current(action).commands
    hosts = tuple(tuple(map(str, step.get("names") or ())) for step in steps if step.get("what") in OUTWARD)
    return _form("", found["arguments"]), hosts, found.get("cwd") or "", len(found.get("files") or ())


def _form(name: str, value):
    """Return a value of a call with a sign in place of each number and identifier."""
    if isinstance(value, dict):
        return tuple((key, _form(key, each)) for key, each in value.items())
    if isinstance(value, list | tuple):
        return tuple(_form(name, each) for each in value)
    if isinstance(value, Number) and not isinstance(value, bool):
        return "-#" if value < 0 else "#"
    if not isinstance(value, str):
        return repr(value)
    if name in PLACES:
        return value
    if known := IDENTIFIER.fullmatch(value):
        return f"{known[1]}#"
    varying = VARYING_IN_SQL if SQL.search(value) else VARYING
    return varying.sub(lambda found: found["host"] or "#", value)


def sums_of(actions) -> list[str]:
    """Return the sum for each currency of what the actions' titles say is paid: ["1,299.00 EUR"]."""
    sums: dict[str, Decimal] = {}
    for action in actions:
        if moves_money(action.tool.rpartition("__")[2]) and (found := AMOUNT.search(action.title)):
            sums[found[2]] = sums.get(found[2], Decimal(0)) + Decimal(found[1].replace(",", ""))
    return [f"{amount:,} {currency}" for currency, amount in sorted(sums.items())]


def _what(action: Action) -> str:
    if action.tool == "Bash":
        return ", ".join(_verbs(current(action).commands)) or gettext("shell commands")
    if action.tool in FILE_TOOLS:
        folder = _folder(content(action)["arguments"])
        return f"{action.tool.rpartition('.')[2]} in {folder}"
    return action.tool


def _verbs(commands: list[dict]) -> list[str]:
    """Return the programs of a shell call with their verbs, each once, in their order."""
    found = []
    for command in commands:
        words = command.get("words") or []
        name = PurePosixPath(words[0]).name if words else ""
        second = words[1] if len(words) > 1 else ""
        is_verb = second.replace("-", "").isalpha() and not second.startswith("-")
        found.append(f"{name} {second}" if is_verb else name)
    found = [text for text in dict.fromkeys(found) if text]
    return [*found[:MAX_VERBS], *(["…"] if len(found) > MAX_VERBS else [])]


def _folder(arguments: dict) -> str:
    path = arguments.get("file_path") or arguments.get("notebook_path") or arguments.get("path")
    folder = str(PurePosixPath(path).parent) if isinstance(path, str) else ""
    return gettext("the top folder") if folder in ("", ".") else f"{folder}/"
