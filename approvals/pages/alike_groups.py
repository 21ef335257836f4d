"""Groups of pending actions, for one row in the list and one answer to all of them.

A group has one agent, one tool, one tier and one prospect of an undo: shell calls with the same programs and verbs,
edits of files in one folder. Its actions are alike if their calls differ in nothing but numbers and identifiers: the
same statement, object, host and currency, and where a number says how much, its sum in a stated currency is known.
Where they are not, the group is offered with nothing ticked. It is one row of the list if its calls have one form, or
are many of one tool that changes or sends data, with the same names and places. What needs two people, or one of a
role, is in no group, and neither are the questions and plans of agents.
"""

import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from numbers import Number
from pathlib import PurePosixPath

from django.utils.translation import gettext

from approvals.evaluation.judge import content, current
from approvals.models import Action
from approvals.pages import alike_numbers
from approvals.policy.deeds import CURRENCIES, PLACES, STATEMENT_KEYS, amount_of, moves_money
from approvals.policy.plural_titles import kind_of_call
from approvals.policy.shell_words import names
from approvals.questions import own_questions

MIN_ALIKE = 3
MIN_OF_A_SHAPE = 5  # calls that differ in more than numbers, from which on they are one row
CHANGING = names(
    """
    create add change set rename move copy delete send post publish reply comment react share archive restore close
    reopen resolve assign unassign link unlink label invite upload charge refund pay payout transfer
    """
)  # what calls do whose arguments are data, as kind_of_call names it
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
# pattern: a call of at most MAX_SHOWN bytes
VARYING = re.compile(rf"(?P<host>{HOST})|{UUID}|\d+(?:[.,]\d+)*")
# pattern: as above
VARYING_IN_SQL = re.compile(rf"(?P<host>{HOST})|{UUID}|(?<!\w)\d+(?:[.,]\d+)*(?!\w)")  # a table's name is exact
SQL = re.compile(r"(?i)\b(?:select|insert|update|delete|drop|truncate|alter|create|grant|revoke|merge|replace|call)\s")
IDENTIFIER = re.compile(r"([a-z]{2,4}_)[A-Za-z]*\d[A-Za-z0-9]*")  # a value such as ch_3Nx7
# pattern: an amount is at most MAX_SHOWN bytes
AMOUNT = re.compile(r"(\d[\d,]*(?:\.\d+)?) ([A-Z]{3})")  # 1,299.00 EUR


@dataclass(frozen=True)
class Group:
    """Actions with one answer, what to call them ("git push", "Edit in docs/"), and whether they are alike.

    `is_one_row`: they are one row of the list, since they differ in nothing but numbers, of which some may say how
    much, or are many calls that change one kind of thing. `key` stays the same when an action comes or goes.
    """

    label: str
    actions: tuple
    is_alike: bool
    is_one_row: bool
    key: str


def groups_of(actions) -> list[Group]:
    """Return the groups of at least MIN_ALIKE among the actions, the largest first. Revisions are prefetched."""
    found: dict[tuple, list[Action]] = {}
    for action in actions:
        if action.takes_one and action.tool not in own_questions.TOOLS:
            found.setdefault(kind_of(action), []).append(action)
    parts = [(kind, shared, part) for kind, of in found.items() for shared, part in _shared(of).items()]
    groups = [_group(*each) for each in parts if len(each[2]) >= MIN_ALIKE]
    return sorted(groups, key=lambda group: -len(group.actions))


def _group(kind: tuple, shared, actions: list[Action]) -> Group:
    key = hashlib.sha256(repr((kind, shared)).encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return Group(kind[-1], tuple(actions), are_alike(actions), shared is not None, key)


def split(actions: list[Action]) -> list[list[Action]]:
    """Return the actions of one kind as the sets that are one row of the list, and the rest."""
    return list(_shared(actions).values())


def _shared(actions: list[Action]) -> dict[object, list[Action]]:
    """Return {what they share: actions} of one kind: a form, or many of them a shape; None for the rest."""
    shared: dict[object, object] = {}
    for what, least in ((form_of, MIN_ALIKE), (shape_of, MIN_OF_A_SHAPE)):
        mine = {action.pk: what(action) for action in actions if action.pk not in shared}
        count = Counter(each for each in mine.values() if each is not None)
        shared |= {pk: (what.__name__, each) for pk, each in mine.items() if count[each] >= least}
    parts: dict[object, list[Action]] = {}
    for action in actions:
        parts.setdefault(shared.get(action.pk), []).append(action)
    return parts


def are_alike(actions) -> bool:
    actions = list(actions)
    if len({form_of(action) for action in actions}) != 1:
        return False
    counting = [each for each in differing(actions) if each.counts]
    return not counting or (len(counting) == 1 and _is_summed(actions, counting[0]))


def _is_summed(actions: list[Action], difference) -> bool:
    """Return whether an amount that differs is what these actions pay, each in the same stated currency."""
    amounts = [_paid(action) for action in actions]
    if not difference.is_amount or None in amounts or len({amount[2] for amount in amounts}) != 1:
        return False
    # Each value stands for one amount, and each amount for one value.
    pairs = {(amount[1], value) for amount, value in zip(amounts, difference.values, strict=True)}
    return len(pairs) == len({amount for amount, _ in pairs}) == len({value for _, value in pairs})


def differing(actions: list[Action]) -> list:
    """Return the numbers that differ among actions of one form; [] if they have several."""
    forms = {form_of(action) for action in actions}
    if len(forms) != 1 or len(forms.pop()) == 1:  # of several forms, or one long call
        return []
    return alike_numbers.differences([_numbers_of(action) for action in actions])


def _numbers_of(action: Action) -> list:
    """Return the numbers of a call, in the order in which its form has a sign for each."""
    return list(_numbers("", content(action)["arguments"], moves_money(action.tool.rpartition("__")[2])))


def _numbers(name: str, value, moves: bool):
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _numbers(key, each, moves)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _numbers(name, each, moves)
    elif isinstance(value, Number) and not isinstance(value, bool):
        yield alike_numbers.of_value(name, value, moves)
    elif isinstance(value, str) and name not in PLACES:
        if IDENTIFIER.fullmatch(value):
            yield alike_numbers.Varying(name, value, False)
            return
        is_sql = SQL.search(value) is not None
        for found in (VARYING_IN_SQL if is_sql else VARYING).finditer(value):
            if not found["host"]:
                yield alike_numbers.in_text(name, value, found, is_sql=is_sql, moves=moves)


def kind_of(action: Action) -> tuple:
    """Return what the actions of a group have in common; the last part is the label of their group."""
    what = _what(action)
    return action.team_id, action.agent_id, action.tool, action.tier, action.undo, what


def form_of(action: Action) -> tuple:
    """Return what is equal in actions that are alike: their call without its numbers, and the hosts it reaches.

    A call that is longer than a group shows is like no other: the patterns here are for short texts.
    """
    if len(current(action).canonical) > MAX_SHOWN:
        return (action.pk,)
    found, steps = content(action), current(action).commands
    hosts = tuple(tuple(map(str, step.get("names") or ())) for step in steps if step.get("what") in OUTWARD)
    try:
        form = _form("", found["arguments"])
    except RecursionError:  # nested too deeply to be compared
        return (action.pk,)
    return form, hosts, found.get("cwd") or "", len(found.get("files") or ())


def shape_of(action: Action) -> tuple | None:
    """Return what is equal in calls that change one kind of thing, or send it: names and types, and places; else None.

    None for commands, files and statements, whose text decides what they do.
    """
    arguments = content(action)["arguments"]
    kind = () if action.tool in FILE_TOOLS else kind_of_call(action.tool, arguments)
    if not kind or kind[1] not in CHANGING or set(arguments) & set(STATEMENT_KEYS):
        return None
    return tuple(_shape("", arguments))


def _shape(name: str, value):
    if isinstance(value, dict):
        for key, each in sorted(value.items()):
            yield key
            yield from _shape(key, each)
    elif isinstance(value, bool) or value is None or name in PLACES or name in CURRENCIES:
        yield repr(value)
    else:
        yield "number" if isinstance(value, Number) else type(value).__name__


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


def _paid(action: Action):
    """Return the match of the amount and the currency that a call names; None without both."""
    return AMOUNT.fullmatch(amount_of(action.tool, content(action)["arguments"]))


def sums_of(actions) -> list[str]:
    """Return the sum for each currency of what the actions pay: ["1,299.00 EUR"]."""
    sums: dict[str, Decimal] = {}
    for action in actions:
        if found := _paid(action):
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
