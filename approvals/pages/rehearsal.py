"""Try a command first, and show what it changed on the copy of the files."""

from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from approvals.actions import rehearsals
from approvals.models import Action
from approvals.pages.card import Card, for_rows
from approvals.pages.rehearsal_part import diffs_of, rows_of
from dashboard.database import clock
from dashboard.problems import Problem
from dashboard.web.pages import carry_out, must, signed_in

DIFFS_PER_PAGE = 30


@signed_in
@require_POST
def rehearse(request, pk):
    action = get_object_or_404(Action.objects.visible_to(request.caller), pk=pk)
    must(request.caller, "decide", action.team_id)
    return carry_out(
        request, lambda: rehearsals.start(action, caller=request.caller), then=reverse("action", args=[pk])
    )


@signed_in
@require_safe
def rehearsal(request, pk):
    """Show the differences that a try made, a page of files at a time."""
    action = get_object_or_404(for_rows(Action.objects.visible_to(request.caller)), pk=pk)
    card = Card(action, request.caller, clock.now())
    context = {"nav": "waiting", "card": card}
    start = request.GET.get("start", "")
    start = int(start) if start.isascii() and start.isdigit() and len(start) < 10 else 0
    if not card.rehearsal_part.has_trees:
        context["problem"] = gettext("Its changes are not kept.")
        return render(request, "approvals/rehearsal.html", context)
    try:
        rows = rows_of(action.rehearsal)
        context["diffs"] = diffs_of(action.rehearsal, rows[start : start + DIFFS_PER_PAGE])
        context["older"] = f"?start={start + DIFFS_PER_PAGE}" if len(rows) > start + DIFFS_PER_PAGE else ""
    except Problem as problem:
        context["problem"] = problem.detail
    return render(request, "approvals/rehearsal.html", context)
