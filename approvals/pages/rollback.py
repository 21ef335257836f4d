"""Show what rolling back an action means, and roll it back."""

import os

from django.contrib import messages
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext

from approvals.actions import rollback
from approvals.models import Action
from approvals.pages.card import for_rows
from dashboard.problems import Problem
from dashboard.web.pages import READ_OR_WRITE, carry_out, must, parameters, signed_in

MAX_SHOWN_PATHS = 100  # paths that are listed


@signed_in
@READ_OR_WRITE
def roll_back(request, pk):
    """Show the files to restore, the later changes that would be lost, and the commits that stay; on POST restore."""
    actions = for_rows(Action.objects.visible_to(request.caller)).select_related("snapshot_before__manifest")
    action = get_object_or_404(actions, pk=pk)
    must(request.caller, "restore", action.team_id)
    card = reverse("action", args=[pk])
    if action.snapshot_before is None:
        messages.info(request, gettext("There is no snapshot before this action."))
        return carry_out(request, lambda: None, then=card)
    place = [action.workspace.team.slug, action.workspace.key]
    if request.method == "POST":
        return carry_out(
            request,
            lambda: rollback.roll_back(
                action,
                parameters(request, "seen")["seen"],
                by=request.caller.actor,
                with_git=request.POST.get("with_git") == "1",
            ),
            then=lambda operation: reverse("workspace-operation", args=[*place, operation.pk]),
            otherwise=reverse("action-rollback", args=[pk]),
        )
    whole = reverse("snapshot-restore", args=[*place, action.snapshot_before.number])
    return render(
        request, "approvals/rollback.html", {"nav": "waiting", "action": action, "whole": whole} | _plan_context(action)
    )


def _plan_context(action: Action) -> dict:
    try:
        plan = rollback.plan(action)
    except Problem as problem:
        return {"unknown": problem.detail}
    told = {"plan": plan, "gone": len(plan.gone.intersection(plan.paths))}
    for name, more, paths in (
        ("rows", "more", plan.paths),
        ("gits", "gits_more", plan.gits_own),
        ("stays", "stays_more", plan.stays),
    ):
        told[name] = [(os.fsdecode(path), path in plan.gone, path in plan.later) for path in paths[:MAX_SHOWN_PATHS]]
        told[more] = len(paths[MAX_SHOWN_PATHS:])
    return told
