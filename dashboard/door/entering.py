"""Let a caller in by a token: the only place where a request, a hook or a socket gets its caller from one."""

import re
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace

from dashboard.door.table import VERBS
from dashboard.door.verb import DOOR, Verb
from dashboard.models import Team, Token
from dashboard.people.access import Caller, caller_by_token, paused_words
from dashboard.problems import Problem, conflict

API = "/api/v1"
STOPPED = "Everything is stopped in this team. A lead can resume it."
INSIDE = "X-Handrail-Inside"  # set by the egress proxy alone: the workspace that the request came from
_CONVERTED = re.compile(r"<(?:\w+:)?(\w+)>")
# (caller, key of a workspace or ""): raises Problem 409 while the agent is interrupted. Set when Django is ready.
refuse_interrupted: list[Callable] = []
_inside: ContextVar[Caller | None] = ContextVar("who came in by a token", default=None)


def name_of(method: str, route: str) -> str:
    """Return the name in the table of a method and a Django route: `<path:path>` there is `{path}`."""
    address = "/" + _CONVERTED.sub(r"{\1}", route)
    return f"{method} {address.removeprefix(API)}"


def let_in(token: Token | None, request) -> Caller | None:
    """Return the caller of a live token, held to the declaration of this request's verb; None without one.

    Where the verb is closed to it, it may see what it may see, and do nothing: what is not its to see stays 404.
    Problem 403 if its agent is paused, 409 (interrupted, stopped).
    """
    if token is None:
        return None
    caller = caller_by_token(token, request.headers.get(INSIDE, ""))
    if caller is None:
        if words := paused_words(token):
            raise Problem(403, words, code="paused")
        return None
    match = request.resolver_match
    name = name_of(request.method, match.route)
    caller = caller if is_open(caller, name) else replace(caller, is_closed=True)
    refuse_held_back(caller, name, match.kwargs.get("key", ""))
    _inside.set(caller)
    return caller


def let_in_socket(token: Token | None, name: str) -> Caller | None:
    """Return the caller of a live token that may open the socket with this name; None without one. Problem 409."""
    caller = caller_by_token(token) if token else None
    if caller is None or not is_open(caller, name):
        return None
    refuse_held_back(caller, name)
    return caller


def is_open(caller: Caller, name: str) -> bool:
    """Return whether the verb's declaration opens it to this token. People's rights are those of their role."""
    if caller.is_person:
        return True
    verb = VERBS.get(name)
    return verb is not None and verb.agents and (verb.runs or not caller.token.for_run)


def refuse_held_back(caller: Caller, name: str, workspace: str = ""):
    """Problem 409 if the verb is refused to an interrupted agent or in a stopped team, and the caller is in one."""
    if is_open(caller, name) and not caller.is_person:
        _refuse(caller, VERBS[name], workspace)


def _refuse(caller: Caller, verb: Verb, workspace: str):
    if verb.stopped == DOOR:
        refuse_when_stopped(caller.agent.team_id)
    if verb.interrupted == DOOR:
        for refuse in refuse_interrupted:
            refuse(caller, workspace)


def refuse_when_stopped(team_id):
    """Problem 409 (code stopped) while everything in the team is stopped."""
    if Team.objects.filter(pk=team_id, stopped_at__isnull=False).exists():
        raise conflict(STOPPED, code="stopped")


def refuse_to_agents():
    """Hold an agent that came in by a token to the rules of a change, whatever its verb is. People pass."""
    if is_agent():
        _refuse(_inside.get(), Verb(), "")


def is_agent() -> bool:
    """Return whether an agent's token asked for what is done now: what secret paths hold is not for it."""
    caller = _inside.get()
    return caller is not None and not caller.is_person


def leave():
    """Forget who came in; each request begins with nobody."""
    _inside.set(None)
