"""What a person has to allow first: asked for as an action, and waited for as long as the client waits."""

from functools import partial

from asgiref.sync import sync_to_async
from django.conf import settings

from approvals.models import Status
from approvals.protocols.e2b.wire import MOST_SECONDS
from dashboard.live.long_poll import place_for, wait_for
from dashboard.problems import Problem
from workspaces import extensions
from workspaces.operations.needs_approval import AskFirst

OPEN = (Status.PENDING, Status.APPROVED, Status.RUNNING)


def patience(seconds: float | None) -> float:
    """Return how long to wait for a decision: a moment less than the client does, so that it hears the answer."""
    return MOST_SECONDS if seconds is None else max(0.0, seconds - min(2.0, seconds / 5))


async def carried_out(caller, wanted: AskFirst, idempotency_key: str, seconds: float):
    """Ask a person, and wait at most `seconds` until it is carried out; return the Command or Terminal, or None.

    Problem 403 names the card, if nobody has answered by then or if the answer was no; 409 if it failed.
    """
    ask = partial(_ask, caller, wanted, idempotency_key)
    asked = await sync_to_async(ask)()
    if _is_open(asked) and seconds > 0:
        with place_for(caller):
            asked = await wait_for(
                ask,
                lambda asked: not _is_open(asked),
                team_ids=caller.team_ids,
                subject=asked["action"]["id"],
                timeout=seconds,
            )
    if _is_open(asked):
        raise Problem(403, f"A person has to allow this first: {asked['url']} It is done once it is approved.")
    if asked["made"] is None and asked["status"] != Status.SUCCEEDED:
        note = (asked["result"] or {}).get("reason") or f"It was {asked['status']}."
        raise Problem(409, f"{note} {asked['url']}")
    return asked["made"]


def _is_open(asked: dict) -> bool:
    return asked["made"] is None and asked["status"] in OPEN


def _ask(caller, wanted: AskFirst, idempotency_key: str) -> dict:
    """Submit the action, or read what became of it. Problem 403 with the address of its card after a no."""
    try:
        return extensions.ports.ask_a_person(caller, wanted, idempotency_key)
    except Problem as problem:
        if "action" not in problem.extra:
            raise
        raise Problem(
            403, f"{problem.detail} {settings.HANDRAIL_PUBLIC_URL}/actions/{problem.extra['action']}/"
        ) from None
