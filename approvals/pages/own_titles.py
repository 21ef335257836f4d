"""The title of an action in the reader's language."""

from collections.abc import Callable

from django.conf import settings
from django.utils.translation import get_language, gettext

from approvals.models import Action
from approvals.policy.deeds import call_of, deed_phrase
from dashboard.text import recorded_text


def title_in_own_language(action: Action, arguments: Callable[[], dict]) -> str | None:
    """Return the recorded title in the reader's language; None if it can't be said in it.

    The title of a tool's call is made again from its arguments, as a phrase, and counts only if that is what was
    recorded: so no words of an agent are taken for ours. `arguments` returns those of the action's first revision.
    """
    if get_language() == settings.LANGUAGE_CODE:
        return action.title
    if not action.tool.startswith("mcp"):
        return recorded_text.in_own_language(action.title)
    server, tool, given = call_of(action.tool, arguments())
    if not server or not isinstance(given, dict):
        return None
    phrase = deed_phrase(server, tool, given)
    return phrase.said(gettext) if str(phrase) == action.title else None
