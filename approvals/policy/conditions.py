"""Conditions of a policy: agent, environment, isolation, label, branch, target, host, amount, hours, duty, undo.

Each is asked about the facts of one call and answers (possible, certain): what is not known is possible, not certain.
"""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from zoneinfo import ZoneInfo

from .globs import Glob
from .reach import NOWHERE, Reach
from .verdict import PolicyError

CONDITIONS = (
    "agent", "environment", "isolation", "label", "branch", "target", "host", "amount", "hours", "on_duty", "undo",
)  # fmt: skip
NAMED = ("agent", "environment", "isolation")  # those with one value, which the context has under the same name
# What separates a workspace's programs from their host; `workspaces.provisioning.isolation` says which is stronger.
ISOLATION = (
    "none", "namespace", "microvm-emulated", "container", "pod-runc", "container-gvisor", "pod-gvisor", "microvm",
    "pod-kata",
)  # fmt: skip
UNDONE = ("inside", "outside", "not")  # by a snapshot, by a call of its own elsewhere, by nothing
MAX_VALUES, MAX_VALUE = 100, 200
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
HOURS = re.compile(
    r"(?:(?P<days>[A-Za-z]{3}(?:-[A-Za-z]{3})?(?:,[A-Za-z]{3}(?:-[A-Za-z]{3})?)*)\s+)?"
    r"(?P<from>\d{1,2}(?::\d{2})?)-(?P<to>\d{1,2}(?::\d{2})?)(?:\s+(?P<zone>[A-Za-z][A-Za-z0-9_+/-]*))?"
)
AMOUNT = re.compile(r"(?P<sign><=|>=|<|>)?\s*(?P<value>\d+(?:\.\d+)?)(?:\s*(?P<currency>[A-Za-z]{3}))?")
NO, MAYBE, YES = (False, False), (True, False), (True, True)  # possible, certain


@dataclass(frozen=True)
class Around:
    """What is known of a call besides its words; None: not known. `targets` are those of what names none.

    `on_duty`: somebody who may approve it is on duty. `undo`: one of UNDONE, where that is known already.
    `only_stated`: a condition about what is not known, but `undo`, is not met, instead of possibly met.
    """

    agent: str | None = None
    environment: str | None = None
    isolation: str | None = None
    labels: dict | None = None
    targets: tuple | None = None
    branch: str | None = None
    at: datetime | None = None
    on_duty: bool | None = None
    undo: str | None = None
    only_stated: bool = False
    branch_may_change: bool = False  # while the call runs, before the part of it that is judged

    @property
    def current_branch(self):
        """Return the branch that a command of the call finds; None if it is not known."""
        return None if self.branch_may_change else self.branch

    @property
    def unknown(self):
        """Return how a condition holds about what is not known."""
        return NO if self.only_stated else MAYBE

    @classmethod
    def of(cls, context):
        """Return what a context says: a key for each of these fields, in the forms that people write."""
        targets = context.get("targets")
        targets = [targets] if isinstance(targets, str) else targets
        named = tuple(each for each in targets if isinstance(each, str)) if isinstance(targets, (list, tuple)) else None
        texts = {key: value for key in (*NAMED, "branch") if isinstance(value := context.get(key), str)}
        more = {"targets": named, "at": _moment(context.get("at")), "only_stated": context.get("only_stated") is True}
        more["branch_may_change"] = context.get("branch_may_change") is True
        on_duty = value if isinstance(value := context.get("on_duty"), bool) else None
        undo = context.get("undo") if context.get("undo") in UNDONE else None
        return cls(**texts, labels=_labels(context.get("labels")), on_duty=on_duty, undo=undo, **more)


@dataclass(frozen=True)
class Facts:
    """What the conditions of a policy are asked about: where a call acts, and what is known around it."""

    around: Around = field(default_factory=Around)
    reach: Reach = NOWHERE
    tool: str = "Bash"  # that a rule names which covers each call of the same kind
    undo: str = "unknown"  # one of verdict.UNDO: whether a snapshot undoes it

    @property
    def undone(self):
        """Return those of UNDONE that may hold. Whether there is a way back outside is looked for after the verdict."""
        if self.undo == "yes":
            return {"inside"}
        possible = {"outside", "not"} if self.undo == "no" else set(UNDONE)
        return possible & {self.around.undo} or possible


def _labels(value):
    if isinstance(value, dict):
        return {str(key): str(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return dict(str(each).partition(":")[::2] for each in value)
    return None


def _moment(value):
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    return None


@dataclass(frozen=True)
class Texts:
    """A list of patterns, of which one must fit; those that begin with ! must not."""

    key: str
    texts: tuple

    @property
    def wanted(self):
        return [Glob(text) for text in self.texts if not text.startswith("!")]

    @property
    def unwanted(self):
        return [Glob(text[1:]) for text in self.texts if text.startswith("!")]

    def fits(self, value):
        wanted = self.wanted
        chosen = not wanted or any(glob.fits(value) for glob in wanted)
        return chosen and not any(glob.fits(value) for glob in self.unwanted)

    def of_values(self, values):
        """Return (possible, certain) for values, of which None is not known; no value at all meets nothing."""
        if not values:
            return NO
        found = [value is None or self.fits(value) for value in values]
        return any(found), all(found) and None not in values

    def holds(self, facts):
        around, reach = facts.around, facts.reach
        if self.key in NAMED:
            value = getattr(around, self.key)
            return around.unknown if value is None else self.of_values([value])
        if self.key == "label":
            return around.unknown if around.labels is None else self._of_labels(around.labels)
        named = [name.value for place in reach.destinations for name in place.names if name.kind == self.key]
        if self.key == "branch" and not named and around.branch is not None:
            named = [around.current_branch]
        found = self.of_values([value and value.lower() if self.key == "host" else value for value in named])
        return (True, False) if reach.is_unread else found

    def _of_labels(self, labels):
        pairs = [f"{key}:{value}" for key, value in labels.items()]
        wanted = self.wanted
        chosen = not wanted or any(glob.fits(pair) for glob in wanted for pair in pairs)
        meets = chosen and not any(glob.fits(pair) for glob in self.unwanted for pair in pairs)
        return YES if meets else NO


@dataclass(frozen=True)
class Targets(Texts):
    """The condition `target`: each destination of a call is one of these targets of the table."""

    table: dict = field(default_factory=dict)

    def chosen(self):
        return [name for name in self.table if any(glob.fits(name) for glob in self.wanted)]

    def refused(self):
        return [name for name in self.table if any(glob.fits(name) for glob in self.unwanted)]

    def holds(self, facts):
        places, stated = facts.reach.destinations, facts.around.targets
        if not places:
            found = [self._of_stated(stated)] if stated else []
        else:
            found = [self._of_place(place, stated) for place in places]
        return any(possible for possible, _ in found), bool(found) and all(certain for _, certain in found)

    def _of_place(self, place, stated):
        table = list(self.table.values())
        if stated is not None and not any(target.is_named_by(place) for target in table):
            return self._of_stated(stated)
        found = {each.name: (each.is_possible_for(place, table), each.is_certain_for(place, table)) for each in table}
        return self._joined(found)

    def _of_stated(self, stated):
        only = len(stated) == 1
        return self._joined({name: (name in stated, only and name in stated) for name in self.table})

    def _joined(self, found):
        chosen, refused = self.chosen(), self.refused()
        wanted = [*map(found.get, chosen)]
        possible = any(each for each, _ in wanted) if self.wanted else True
        certain = any(each for _, each in wanted) if self.wanted else True
        unwanted = [*map(found.get, refused)]
        return possible and not any(each for _, each in unwanted), certain and not any(each for each, _ in unwanted)


@dataclass(frozen=True)
class Amounts:
    """The condition `amount`: the money that a call names, compared with a number."""

    texts: tuple
    sign: str
    value: Decimal
    currency: str

    def holds(self, facts):
        found = [self._of_one(*amount) for amount in facts.reach.amounts]
        if facts.reach.is_unread:
            return MAYBE
        return any(possible for possible, _ in found), bool(found) and all(certain for _, certain in found)

    def _of_one(self, value, currency):
        if value is None:
            return MAYBE
        compared = {"<=": value <= self.value, "<": value < self.value, ">=": value >= self.value}
        meets = compared.get(self.sign, value > self.value)
        if self.currency and currency != self.currency:
            return MAYBE
        return YES if meets else NO


@dataclass(frozen=True)
class Hours:
    """The condition `hours`: spans of the week, each (days, from, to, time zone, whether it must not be met).

    Times are in minutes of a day.
    """

    texts: tuple
    spans: tuple

    def holds(self, facts):
        if facts.around.at is None:
            return facts.around.unknown
        within = {False: [], True: []}
        for span in self.spans:
            within[span[4]].append(_is_within(span, facts.around.at))
        chosen = not within[False] or any(within[False])
        return YES if chosen and not any(within[True]) else NO


def _is_within(span, moment):
    days, start, end, zone, _ = span
    local = moment.astimezone(ZoneInfo(zone))
    minute = local.hour * 60 + local.minute
    if start < end:
        return local.weekday() in days and start <= minute < end
    # It goes on after midnight, as a part of the day that it began on.
    return (local.weekday() in days and minute >= start) or ((local.weekday() - 1) % 7 in days and minute < end)


@dataclass(frozen=True)
class Duty:
    """The condition `on_duty`: somebody who may approve the call is on duty, or nobody is."""

    wanted: bool

    @property
    def texts(self):
        return ("true" if self.wanted else "false",)

    def holds(self, facts):
        known = facts.around.on_duty
        if known is None:
            return facts.around.unknown
        return YES if known == self.wanted else NO


@dataclass(frozen=True)
class Undone:
    """The condition `undo`: what the call does can be undone inside, outside, or not."""

    texts: tuple

    def holds(self, facts):
        possible = facts.undone
        if possible <= set(self.texts):
            return YES
        # Also with `only_stated`: a real call is judged before anybody knows.
        return MAYBE if possible & set(self.texts) else NO


def acts_at(table, facts):
    """Return {target: "certain" or "possible"} of the targets of a table that a call acts on, or may act on."""
    found = {}
    for name in table:
        possible, certain = Targets("target", (name,), table).holds(facts)
        if possible or certain:
            found[name] = "certain" if certain else "possible"
    return found


def read_condition(key, value, table):
    """Return the condition that a block of a policy has under this key. PolicyError says what is wrong with it."""
    values = value if isinstance(value, list) else [value]
    if key == "amount":
        return _amount(value)
    if key == "on_duty":
        if not isinstance(value, bool):
            raise PolicyError("on_duty is true, while somebody is on duty, or false, while nobody is.")
        return Duty(value)
    if key == "undo":
        if not values or not all(each in UNDONE for each in values):
            raise PolicyError(f"undo is one of {', '.join(UNDONE)}, or a list of them.")
        return Undone(tuple(values))
    if not values or not all(isinstance(each, str) and each.strip(" !") for each in values):
        raise PolicyError(f"{key} must be a text or a list of texts, and not empty.")
    if len(values) > MAX_VALUES or any(len(each) > MAX_VALUE for each in values):
        raise PolicyError(f"{key} has more or longer values than a policy can hold.")
    texts = tuple(each.strip() for each in values)
    if key == "hours":
        return Hours(texts, tuple(map(_span, texts)))
    if key == "target":
        return _target(texts, table)
    if key == "label" and not all(":" in each for each in texts):
        raise PolicyError("label is written as key:value, such as team:payments.")
    if key == "isolation":
        _known_levels(texts)
    texts = tuple(each.lower() for each in texts) if key == "host" else texts
    return _possible(Texts(key, texts))


def _known_levels(texts):
    """Raise PolicyError for a pattern that fits no level: a rule about it would never apply."""
    for text in texts:
        if not any(Glob(text.removeprefix("!")).fits(level) for level in ISOLATION):
            raise PolicyError(f"there is no isolation {text.removeprefix('!')}; there are: {', '.join(ISOLATION)}.")


def _possible(test):
    """Return the test, unless no value can ever meet it."""
    for text in test.texts:
        refusing = next((each for each in test.texts if each[:1] == "!" and Glob(each[1:]).fits(text)), None)
        if text[:1] != "!" and refusing and len(test.wanted) == 1:
            raise PolicyError(f"{test.key} can never be met: {refusing} takes out all of {text}.")
    return test


def _target(texts, table):
    test = Targets("target", texts, table)
    for text in texts:
        if not any(Glob(text.removeprefix("!")).fits(name) for name in table):
            known = ", ".join(table) or "none"
            raise PolicyError(f"there is no target {text.removeprefix('!')}; the table [targets] has {known}.")
    return _possible(test)


def _amount(value):
    text = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    match = AMOUNT.fullmatch(text.strip()) if isinstance(text, str) else None
    if not match:
        raise PolicyError('amount is a number, or compares with one: "<= 100" or "> 1000 EUR".')
    try:
        number = Decimal(match["value"])
    except InvalidOperation:
        raise PolicyError(f"amount has no number that can be compared: {text}.") from None
    return Amounts((text.strip(),), match["sign"] or "<=", number, (match["currency"] or "").upper())


def _span(text):
    match = HOURS.fullmatch(text.removeprefix("!").strip())
    if not match:
        raise PolicyError(f"{text!r} is no span of hours; write it as Mon-Fri 09:00-18:00 Europe/Berlin.")
    start, end = _minute(match["from"]), _minute(match["to"])
    if start == end:
        raise PolicyError(f"{text!r} begins and ends at the same time, so it is never met.")
    zone = match["zone"] or "UTC"
    try:
        ZoneInfo(zone)
    except (ValueError, OSError, KeyError):
        raise PolicyError(f"{zone} is no time zone; write it as Europe/Berlin.") from None
    return frozenset(_days(match["days"] or "mon-sun")), start, end, zone, text.startswith("!")


def _minute(text):
    hour, _, minute = text.partition(":")
    number = int(hour) * 60 + int(minute or 0)
    if number > 24 * 60 or int(minute or 0) > 59:
        raise PolicyError(f"{text} is no time of day.")
    return number


def _days(text):
    for part in text.lower().split(","):
        first, _, last = part.partition("-")
        if first not in DAYS or (last and last not in DAYS):
            raise PolicyError(f"{part} are no days; they are {', '.join(DAYS)}.")
        at, end = DAYS.index(first), DAYS.index(last or first)
        while True:
            yield at
            if at == end:
                break
            at = (at + 1) % 7
