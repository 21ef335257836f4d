"""Passkeys on a card: what its template shows of them, the challenge for an approval, and the answer in its form."""

import json

from django.http import JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from approvals.actions import expiry
from approvals.actions.step_up import challenges, requirement
from approvals.models import Action
from dashboard.problems import Problem
from dashboard.web.pages import must, parameters, signed_in
from handrail_verify.card import read as read_statement

MAX_ANSWER = 16_384  # characters


class PasskeyPart:
    """What a card says about passkeys to one person; `is_needed` is False unless the person may approve it now."""

    def __init__(self, action: Action, caller, may_decide: bool):
        self.is_needed = may_decide and requirement.is_required(action, caller)
        self.why_not = requirement.why_not(caller) if self.is_needed else ""


def answer_of(request) -> dict | None:
    """Return what the passkey answered, {challenge, credential}; None if the form has none. A broken one is refused."""
    text = request.POST.get("passkey", "")
    if not text:
        return None
    try:
        found = json.loads(text) if len(text) <= MAX_ANSWER else {}
    except (ValueError, RecursionError):
        found = {}
    return found if isinstance(found, dict) and found else {"challenge": None}


@signed_in
@never_cache
@require_POST
def challenge(request, pk):
    """Make a challenge for the approval that this form asks for; JSON {id, options} for static/js/passkeys.js."""
    found = get_object_or_404(Action.objects.visible_to(request.caller).select_related("team", "rehearsal"), pk=pk)
    must(request.caller, "decide", found.team_id)
    chosen = parameters(request, "digest", "envelope", "apply", "rehearsal", "alone")
    try:
        made = challenges.create(
            expiry.end_if_due(found),
            caller=request.caller,
            digest=chosen["digest"],
            alone=chosen["alone"] == "1",
            unheld=chosen["envelope"] == "none",
            apply=chosen["apply"] == "rehearsal",
            rehearsal=chosen["rehearsal"] or None,
            rendered=read_statement(request.POST.get("rendered", "")),
        )
    except Problem as problem:
        return JsonResponse({"detail": problem.detail}, status=problem.status)
    return JsonResponse(made)
