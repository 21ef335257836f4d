"""Replays that a page shows while they go on: each look at one lets it go on for a moment."""

from django.http import Http404
from django.shortcuts import render
from django.views.decorators.http import require_safe

from approvals.pages.policy.effect_part import groups_of
from approvals.reports.policy_changes import kept
from approvals.reports.policy_changes.effect import Replay
from approvals.reports.policy_changes.kept import Kept
from dashboard.web.pages import must, signed_in

FIRST, STEP = 3.0, 2.0  # seconds until the page is first shown, and between two of its looks


def started(replay: Replay, shadowed: list) -> dict:
    """Let a replay go on for FIRST seconds and return the context of its part of the page."""
    replay.advance(FIRST)
    return _context(kept.keep(replay, shadowed))


def _context(one: Kept) -> dict:
    """Return what the part of the page shows: what was found so far, and where to look again."""
    found = one.replay.effect()
    shown = {"effect": found, "groups": groups_of(found), "shadowed": one.shadowed, "is_over": one.replay.is_done}
    return shown | {"key": one.key, "percent": found.judged * 100 // max(found.of, 1)}


@signed_in
@require_safe
def progress(request, replay: str):
    """Show a replay of the person's team a moment later; none is kept for long."""
    one = kept.find(replay, request.caller.team_ids)
    if one is None:
        raise Http404("no such replay")
    scope = one.replay.scope
    must(request.caller, "write_policy", scope.team)
    one.advance(STEP)
    context = _context(one) | {"nav": "policy", "scope": scope}
    return render(request, "approvals/_policy_effect.html" if request.htmx else "approvals/policy_effect.html", context)
