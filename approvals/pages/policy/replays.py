"""Replays that a page shows while they go on: each look at one lets it go on for a moment."""

import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from django.http import Http404
from django.shortcuts import render
from django.views.decorators.http import require_safe

from approvals.pages.policy.effect_part import groups_of
from approvals.reports.policy_changes.effect import SECONDS, Replay
from dashboard.web.pages import must, signed_in

MAX_KEPT = 8
FIRST, STEP = 3.0, 2.0  # seconds until the page is first shown, and between two of its looks


@dataclass
class Kept:
    """A replay, with the entries for rules that never decide (workers.check)."""

    replay: Replay
    shadowed: list
    spent: float = FIRST
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_over(self) -> bool:
        return self.replay.is_done or self.spent >= SECONDS

    def context(self, key: str) -> dict:
        """Return what the part of the page shows: what was found so far, and where to look again."""
        found = self.replay.effect()
        shown = {"effect": found, "groups": groups_of(found), "shadowed": self.shadowed, "is_over": self.is_over}
        return shown | {"key": key, "percent": found.judged * 100 // max(found.of, 1)}


_kept: OrderedDict[str, Kept] = OrderedDict()
_lock = threading.Lock()


def started(replay: Replay, shadowed: list) -> dict:
    """Let a replay go on for FIRST seconds and return the context of its part of the page."""
    replay.advance(FIRST)
    kept, key = Kept(replay, shadowed), secrets.token_urlsafe(16)
    with _lock:
        _kept[key] = kept
        while len(_kept) > MAX_KEPT:
            _kept.popitem(last=False)
    return kept.context(key)


@signed_in
@require_safe
def progress(request, replay: str):
    """Show a replay of the person's team a moment later; none is kept for long."""
    kept = _kept.get(replay)
    if kept is None or kept.replay.scope.team.pk not in request.caller.team_ids:
        raise Http404("no such replay")
    scope = kept.replay.scope
    must(request.caller, "write_policy", scope.team)
    with kept.lock:
        if not kept.is_over:
            kept.replay.advance(STEP)
            kept.spent += STEP
        context = kept.context(replay) | {"nav": "policy", "scope": scope}
    return render(request, "approvals/_policy_effect.html" if request.htmx else "approvals/policy_effect.html", context)
