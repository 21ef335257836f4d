"""The title of several alike calls: "3 refunds (stripe)", "50 contact changes (crm)", "4 × Drop table users (pg)"."""

from . import title_words as words
from .amounts import currency_of_fields
from .deeds import call_of, kind_of, noun_of
from .patches import TOOL as PATCH
from .phrases import Phrase
from .rules import FILE_WRITERS


def plural_title(calls):
    """Return one title for calls that are alike: "50 contact changes (crm)".

    `calls`: (tool, arguments) of each, as an action has them: `mcp__crm__update_contact` and a dict. "" if they have
    no title in common: calls of different tools or deeds, shell commands, and fewer than two.
    """
    said = plural_phrase(calls)
    return str(said) if said else ""


def plural_phrase(calls):
    """Return the title of alike calls as a Phrase, for the reader's language; None if they have none in common.

    `plural_phrase(calls).said(gettext)` is the text in the language that is active.
    """
    calls = list(calls)
    kinds = {kind_of_call(*call) for call in calls}
    if len(calls) < 2 or len(kinds) != 1 or not (kind := kinds.pop()):
        return None
    server, verb, thing, title, _currency = kind
    number, template = f"{len(calls):,}", words.DEEDS[verb][1] if verb else ""
    if template and (thing or "{thing" not in template):
        parts = {"thing": noun_of(thing), "things": noun_of(thing, len(calls))}
        said = Phrase.of(template, number=number, **parts)
    else:
        title = title or Phrase.of(words.DEEDS[verb][0], object="")
        said = Phrase.of(words.ALIKE, number=number, title=title)
    return Phrase.of(words.BY, title=said, server=server) if server else said


def kind_of_call(tool, arguments):
    """Return (server, verb, thing, title, currency) that a call shares with those like it; () if nothing is known.

    `verb` and `thing` are words of title_words: "change", "contact". Where there are none, `title` is what the
    statement of the call does, or the tool's own name: to drop a table and to read one are of two kinds.
    `currency` is "EUR", or "" for a call without an amount.
    """
    if tool in FILE_WRITERS or tool == PATCH:
        return "", "change", "file", "", ""
    server, name, given = call_of(tool, arguments)
    if not server or not isinstance(given, dict):
        return ()
    return server, *kind_of(server, name, given), currency_of_fields(given)
