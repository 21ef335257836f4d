"""Say what was recorded in English in the language of the reader.

A record is a sentence, and stays one: it is what the decider saw, and what programs search. It was made from a form,
such as "pushes to {branch} on {remote}", whose parts are names. Here the form and its parts are found again, and the
form is said in the other language with the same parts. A text that could come from a form in two ways is left as it is,
so that no name is ever split or moved to another place by a guess.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice

from django.conf import settings
from django.utils.formats import number_format
from django.utils.translation import get_language, gettext

MAX_LENGTH = 2000  # characters; longer texts are left as they are
MAX_TRIES = 200  # ways of reading one form that are tried
SLOT = re.compile(r"\{(\w+)\}")  # pattern: of our own forms
NUMBERS = {"n", "more"}  # slots that hold digits
NESTED = {"says", "title", "clause", "commits", "files"}  # slots that hold a text from a form themselves
PATHS = {"path", "what"}
# What no name has: words of a form, and in a path also those of the titles of tools, which are made elsewhere.
OF_FORMS = (", which ", ", whose ", ", outside ")
OF_TOOLS = ('"', " in ", " to ", " on ", " (")
AND = ", "  # between the titles of several commands
MAX_PIECES = 3  # of one title that has commas itself


@dataclass(frozen=True)
class Form:
    """One form: literal texts, and between them the names of its parts. `msgid` is what translators get."""

    msgid: str
    text: str
    literals: tuple = field(init=False)
    slots: tuple = field(init=False)
    is_title: bool = False

    def __post_init__(self):
        pieces = SLOT.split(self.text)
        object.__setattr__(self, "literals", tuple(pieces[::2]))
        object.__setattr__(self, "slots", tuple(pieces[1::2]))

    @property
    def weight(self) -> int:
        return sum(map(len, self.literals))

    def said(self, parts: dict) -> str | None:
        """Return the form in the reader's language; None if it has no translation."""
        template = gettext(self.msgid)
        if template == self.msgid:
            return None
        if self.is_title and not template.startswith("{"):
            template = template[:1].upper() + template[1:]
        return SLOT.sub(lambda slot: parts.get(slot[1], slot[0]), template)

    def parts_in(self, text: str, said: Callable):
        """Yield {slot: part in the reader's language} for each way in which the text comes from this form."""
        first, last = self.literals[0], self.literals[-1]
        if not text.startswith(first) or not text.endswith(last) or len(text) < self.weight + len(self.slots):
            return
        if not self.slots:
            if text == first:
                yield {}
            return
        yield from self._rest(text[: len(text) - len(last)], len(first), 0, {}, said)

    def _rest(self, text: str, begin: int, number: int, parts: dict, said: Callable):
        slot, is_last = self.slots[number], number == len(self.slots) - 1
        ends = [len(text)] if is_last else _places(text, self.literals[number + 1], begin + 1)
        for end in ends:
            part = _part(slot, text[begin:end], said)
            if part is None:
                continue
            found = parts | {slot: part}
            if is_last:
                yield found
            else:
                yield from self._rest(text, end + len(self.literals[number + 1]), number + 1, found, said)


def _places(text: str, literal: str, begin: int):
    place = text.find(literal, begin)
    while place >= 0:
        yield place
        place = text.find(literal, place + 1)


def _part(slot: str, text: str, said: Callable) -> str | None:
    if not text:
        return None
    if slot in NUMBERS:
        return _number(text)
    if slot == "size":
        return said(text) or text
    if slot in NESTED:
        return said(text)
    if slot == "key" and " " in text:  # words of another form, such as "files whose names are"
        return None
    if slot == "program" and text.split(" ")[0] not in _programs:
        return None
    words = OF_FORMS + OF_TOOLS if slot in PATHS else OF_FORMS
    return None if any(each in text for each in words) else text


def _number(text: str) -> str | None:
    """Return digits, with the commas of the record, as the reader's language groups them; None for anything else."""
    digits = text.replace(",", "")
    if not digits.isdecimal():
        return None
    return number_format(int(digits), force_grouping=True) if "," in text else text


own_titles: list[Callable] = []  # one: of an action, its title in the reader's language; None without one

_forms: list[Form] = []
_programs: set[str] = set()  # what a slot `program` may begin with


def register(
    clauses: Iterable[str],
    titles: Iterable[str] = (),
    *,
    imperative: Callable[[str], str] | None = None,
    programs: Iterable[str] = (),
):
    """Add forms of records. Of each clause, `imperative` makes the title that is derived from it."""
    _programs.update(programs)
    for text in clauses:
        _forms.append(Form(text, text))
        if imperative:
            _forms.append(Form(text, imperative(text), is_title=True))
    _forms.extend(Form(text, text, is_title=True) for text in titles)
    _forms.sort(key=lambda form: -form.weight)
    in_language.cache_clear()


def forms() -> tuple[Form, ...]:
    return tuple(_forms)


def in_own_language(text: str) -> str | None:
    """Return what was recorded in the reader's language; None if it comes from no form, or from one in two ways."""
    return in_language(text, get_language()) if len(text) <= MAX_LENGTH else None


def said(text: str) -> str:
    """Return what was recorded in the reader's language where it can be said in it, else as it was recorded."""
    if get_language() == settings.LANGUAGE_CODE:
        return text
    return in_own_language(text) or text


@lru_cache(maxsize=4096)
def in_language(text: str, language: str) -> str | None:
    return _said(text)


def _said(text: str) -> str | None:
    exact = gettext(text) if text.strip() else text
    if exact != text:
        return exact
    return _list(text) or _single(text)


def _single(text: str) -> str | None:
    """Return the text of the form that says most of it by itself."""
    for form in _forms:
        found = {form.said(parts) for parts in islice(form.parts_in(text, _said), MAX_TRIES)}
        if found:
            return found.pop() if len(found) == 1 else None
    return None


def _list(text: str) -> str | None:
    """Return the titles of several commands, one behind another, with "and 2 more" at the end."""
    pieces = text.split(AND)
    said = _listed(pieces, 0, is_first=True) if len(pieces) > 1 else None
    return AND.join(said) if said and len(said) > 1 else None


def _listed(pieces: list[str], begin: int, *, is_first: bool) -> list[str] | None:
    """Return the titles that the pieces are put together to, from number `begin` on; None if they are no titles."""
    if begin == len(pieces):
        return []
    for end in range(begin + 1, min(len(pieces), begin + MAX_PIECES) + 1):
        piece = AND.join(pieces[begin:end])
        if piece.count('"') % 2:
            continue
        found = _single(piece if is_first else piece[:1].upper() + piece[1:])
        rest = _listed(pieces, end, is_first=False) if found else None
        if rest is not None:
            return [found, *rest]
    return None
