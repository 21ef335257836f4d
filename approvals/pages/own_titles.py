"""The title of an action in the reader's language."""

from collections.abc import Callable
from functools import lru_cache

from django.conf import settings
from django.utils.translation import get_language, gettext

from approvals.evaluation.calls import parsed
from approvals.models import Action, Revision
from approvals.policy.deeds import call_of, deed_phrase
from approvals.policy.phrases import Phrase
from dashboard.text import recorded_text


def own_title(action: Action) -> str | None:
    """Return the recorded title in the reader's language; None if it can't be said in it.

    Of a tool's call one query finds the arguments, once for each process.
    """
    if get_language() == settings.LANGUAGE_CODE or not action.tool.startswith("mcp"):
        return title_in_own_language(action, dict)
    return _title_of_call(action.pk, action.tool, action.title, get_language())


def shown_title(action: Action) -> str:
    """Return the title in the reader's language if it can be said in it, else as it was recorded."""
    return own_title(action) or action.title


@lru_cache(maxsize=4096)
def _title_of_call(pk, tool: str, title: str, language: str) -> str | None:
    first = Revision.objects.filter(action=pk).order_by("number").values_list("canonical", flat=True).first()
    return _said(tool, parsed(first)["arguments"], title) if first else None


def title_in_own_language(action: Action, arguments: Callable[[], dict]) -> str | None:
    """Return the recorded title in the reader's language; None if it can't be said in it.

    `arguments` returns those of the action's first revision.
    """
    if get_language() == settings.LANGUAGE_CODE:
        return action.title
    if not action.tool.startswith("mcp"):
        return recorded_text.in_own_language(action.title)
    return _said(action.tool, arguments(), action.title)


def _said(tool: str, arguments: dict, title: str) -> str | None:
    """Return the title of a tool's call, made again from its arguments as a phrase.

    It counts only if that is what was recorded: so no words of an agent are taken for ours.
    """
    server, name, given = call_of(tool, arguments)
    if not server or not isinstance(given, dict):
        return None
    phrase = deed_phrase(server, name, given)
    if str(phrase) != title:
        return None
    # A title that is a text comes from a statement, as that of a command does.
    parts = ((part, _read_back(text) if part == "title" else text) for part, text in phrase.parts)
    return Phrase(phrase.template, tuple(parts)).said(gettext)


def _read_back(part):
    return (recorded_text.in_own_language(part) or part) if isinstance(part, str) else part
