"""Numbers that differ among calls which are otherwise alike: what each says, and whether it may say how much.

A number under the name of an identifier (`id`, `issue_number`, a part of a path) says which one. Any other may say how
much, so nobody ticks its calls beforehand unless the sum is known with its currency.
"""

import re
from decimal import Decimal, InvalidOperation
from numbers import Number
from typing import NamedTuple

from django.utils.translation import gettext

from approvals.policy.shell_words import names

# Names, or their first or last parts, of what says which one.
IDENTIFYING = names(
    """
    id ids uid uuid guid number numbers no num nr key keys ref refs reference index idx page offset cursor line lines
    row rows seq sequence position pr mr issue issues ticket tickets build version revision rev tag tags label labels
    name names title path paths file files url uri link branch port ports user users contact contacts charge intent
    payment invoice order orders subscription thread channel message comment commit sha hash run job pid digest date
    time timestamp at year month day since until before after
    """
)
# Those of what receives something: where money moves, another one is another object.
RECEIVING = names(
    "account accounts iban wallet recipient recipients beneficiary payee creditor customer to address phone"
)
AMOUNTS = names(
    """
    amount amounts total sum price prices value cents minor units quantity qty count cost fee fees balance credit debit
    tip tax salary wage budget limit rate percent discount shares size betrag summe preis menge wert montant prix
    importe precio valor kwota bedrag belopp
    """
)
MONEY_WORDS = re.compile(
    r"(?i)(?<![a-z])(?:pay(?:ment|ments|out|outs)?|refunds?|charges?|transfers?|wire|withdraw|deposit)(?![a-z])"
)
# pattern: a call of at most MAX_SHOWN bytes
ASSIGNED = re.compile(
    r"([A-Za-z][\w-]*)[\"'`\]]?\s*(?:=|:|:=|[<>]=?)\s*[\"']?(?:[-+]|[$€£¥])?$|--([A-Za-z][\w-]*)\s+[\"']?-?$"
)
# pattern: a call of at most MAX_SHOWN bytes
AMONG = re.compile(r"(?i)([A-Za-z]\w*)\s+in\s*\([\d\s,.'\"]*$")
BESIDE = re.compile(r"[$€£¥₹]\s?$|(?i:\b(?:eur|usd|gbp|chf|jpy)\s?)$")
PARTS = re.compile(r"[^A-Za-z]+|(?<=[a-z])(?=[A-Z])")
MAX_VALUES, MAX_NAMED = 4, 4


class Varying(NamedTuple):
    """A number of a call: its name, how it is written, and whether it may say how much."""

    name: str
    text: str
    counts: bool


class Difference(NamedTuple):
    """A number that differs among calls: its name, the value in each call, and whether it may say how much."""

    name: str
    values: tuple
    counts: bool

    @property
    def is_amount(self) -> bool:
        return bool(AMOUNTS & set(_parts(self.name)))


def of_value(name: str, value, moves: bool) -> Varying:
    """Return a number that is a value of its own. `moves`: its call moves money."""
    return Varying(name, _plain(value), _counts(name, moves))


def in_text(name: str, text: str, found, *, is_sql: bool, moves: bool) -> Varying:
    """Return a number within a text: `found` is its match. A text that is one number counts as a value."""
    before, after = text[max(found.start() - 80, 0) : found.start()], text[found.end() : found.end() + 5]
    if found[0] == text.strip():
        return Varying(name, found[0], _counts(name, moves))
    if match := ASSIGNED.search(before) or AMONG.search(before):
        named = next(filter(None, match.groups()))
        return Varying(named, found[0], _counts(named, moves))
    if BESIDE.search(before) or re.match(r"\s?(?:[$€£¥₹%]|(?i:eur|usd|gbp|chf|jpy)\b)", after):
        return Varying(name, found[0], True)
    alone = not before[-1:].strip() and not after[:1].strip()
    return Varying("", found[0], is_sql or (alone and (moves or MONEY_WORDS.search(text) is not None)))


def differences(calls: list[list[Varying]]) -> list[Difference]:
    """Return the numbers that differ among calls of one form, in which they stand in the same order."""
    found = []
    for column in zip(*calls, strict=True):
        if len({each.text for each in column}) > 1:
            found.append(Difference(column[0].name, tuple(each.text for each in column), any(c.counts for c in column)))
    return found


def phrases_of(found: list[Difference]) -> list[str]:
    """Return a phrase for each difference: "amount 10, 11, 999999"."""
    ordered = sorted(dict.fromkeys(found), key=lambda each: not each.counts)
    phrases = [f"{each.name or gettext('numbers')} {_range(each.values)}" for each in ordered[:MAX_NAMED]]
    if ordered[MAX_NAMED:]:
        phrases.append(gettext("%(count)s more") % {"count": len(ordered) - MAX_NAMED})
    return phrases


def total(difference: Difference) -> str:
    """Return the sum of an amount that differs; "" if one of its values is no number."""
    values = [_number(text) for text in difference.values]
    return "" if None in values else f"{sum(values):,}"


def _range(values) -> str:
    distinct = list(dict.fromkeys(values))
    if len(distinct) <= MAX_VALUES:
        return ", ".join(distinct)
    known = [(number, text) for text in distinct if (number := _number(text)) is not None]
    if len(known) < len(distinct):
        return gettext("%(first)s and %(count)s more") % {"first": distinct[0], "count": len(distinct) - 1}
    least, most = min(known), max(known)
    return gettext("%(least)s to %(most)s") % {"least": least[1], "most": most[1]}


def _number(text: str):
    try:
        return Decimal(text.replace(",", ""))
    except InvalidOperation:
        return None


def _plain(value: Number) -> str:
    return str(value)


def _counts(name: str, moves: bool) -> bool:
    parts = _parts(name)
    if AMOUNTS & set(parts) or (moves and RECEIVING & set(parts)):
        return True
    return not IDENTIFYING & {*parts[:1], *parts[-1:]}


def _parts(name: str) -> list[str]:
    return [part.lower() for part in PARTS.split(name) if part]
