"""Requests that were answered together: the list of them, how each stands, and taking all answers back at once.

Their address names them by their numbers in the team ("101-150,160"), so that it stays true whatever becomes of them.
"""

import re

from django.contrib import messages
from django.http import Http404
from django.middleware.csrf import get_token
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_POST, require_safe

from approvals.actions import gate
from approvals.models import Action
from approvals.pages.alike_groups import MAX_ANSWERED
from approvals.pages.card import cards_of, for_rows
from dashboard.database import clock
from dashboard.models import Team
from dashboard.problems import Problem
from dashboard.web.pages import carry_out, must, signed_in

MAX_NAMED = 5  # requests whose answer could not be taken back that are named with the reason


@signed_in
@require_safe
def together(request, team: str, numbers: str):
    """List the requests with their outcomes."""
    found = _those(request, team, numbers)
    cards = cards_of(for_rows(found).order_by("number"), request.caller, clock.now())
    if not cards:
        raise Http404("no such actions")
    context = {
        "nav": "waiting",
        "cards": cards,
        "count": len(cards),
        "address": reverse("together", args=[team, numbers]),
    }
    return render(request, "approvals/together.html", context | {"open_count": len(_undoable(request, found))})


@signed_in
@require_POST
def undo(request, team: str, numbers: str):
    """Take back each of one's answers that nothing has used yet, and say of how many it was too late."""
    found = _those(request, team, numbers)
    must(request.caller, "decide", get_object_or_404(Team.objects.visible_to(request.caller), slug=team).pk)
    done, late = 0, []
    for action in found.order_by("number"):
        try:
            gate.take_back(action, caller=request.caller)
        except Problem as problem:
            late.append(f"{action}: {problem.detail}")
        else:
            done += 1
    if done:
        words = ngettext(
            "%(n)s answer withdrawn. It needs approval again.",
            "%(n)s answers withdrawn. They need approval again.",
            done,
        )
        messages.success(request, words % {"n": done})
    if late:
        words = ngettext("%(n)s could not be taken back.", "%(n)s could not be taken back.", len(late)) % {
            "n": len(late)
        }
        messages.warning(request, " ".join([words, *late[:MAX_NAMED]]))
    return carry_out(request, lambda: None, then=reverse("together", args=[team, numbers]))


def links_to(request, actions: list[Action]) -> str:
    """Return what a notice about these answers ends with: a button that takes them back, if any can be, and a link."""
    if not actions:
        return ""
    address = reverse("together", args=[actions[0].team.slug, numbers_of(actions)])
    links = format_html(' · <a href="{}">{}</a>', address, gettext("View"))
    if not _undoable(request, Action.objects.filter(pk__in=[action.pk for action in actions])):
        return links
    form = ' · <form class="inline-form" method="post" action="{}undo/"><input type="hidden" name="{}" value="{}">'
    button = '<button class="plain link" data-decide>{}</button></form>{}'
    return format_html(form + button, address, "csrfmiddlewaretoken", get_token(request), gettext("Undo"), links)


def numbers_of(actions: list[Action]) -> str:
    """Return the numbers of the actions in their order, neighbours as a range: "101-150,160"."""
    runs: list[list[int]] = []
    for number in sorted(action.number for action in actions):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _numbers_in(text: str) -> list[int]:
    """Return the numbers that an address names, at most MAX_ANSWERED; Http404 for text that names none."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part)
        if not match:
            raise Http404("no such actions")
        first, last = int(match[1]), int(match[2] or match[1])
        found += range(first, min(last, first + MAX_ANSWERED) + 1)
    return found[:MAX_ANSWERED]


def _those(request, team: str, numbers: str):
    found = Action.objects.visible_to(request.caller).filter(team__slug=team, number__in=_numbers_in(numbers))
    return found.select_related("team")


def _undoable(request, actions) -> set:
    return gate.those_to_take_back(actions, request.caller)
