"""Search: what carries a name, a number or some words, of all that the person may see."""

import re

from django.db.models import Q
from django.shortcuts import render
from django.views.decorators.http import require_safe

from approvals.card import cards_of, for_rows
from approvals.models import Action
from dashboard import clock
from dashboard.models import Agent
from dashboard.pages import asked, signed_in
from workspaces.head import with_what_lists_need
from workspaces.models import Command, Snapshot, Workspace

AT_MOST = 20  # of each kind; whoever looks for more narrows the words
LONGEST = 200
NUMBERED = re.compile(r"(?:a-?)?(\d{1,9})", re.IGNORECASE)
DIGEST = re.compile(r"[0-9a-f]{8}|[0-9a-f]{64}", re.IGNORECASE)


@signed_in
@require_safe
def search(request):
    caller = request.caller
    wanted = asked(request, "q")["q"][:LONGEST]
    context = {"nav": "search", "q": wanted, "at_most": AT_MOST}
    if wanted:
        context |= {
            "workspaces": list(_workspaces(caller, wanted)[:AT_MOST]),
            "actions": cards_of(_actions(caller, wanted)[:AT_MOST], caller, clock.now()),
            "commands": list(_commands(caller, wanted)[:AT_MOST]),
            "snapshots": list(_snapshots(caller, wanted)[:AT_MOST]),
            "agents": list(_agents(caller, wanted)[:AT_MOST]),
        }
        context["found"] = any(context[kind] for kind in ("workspaces", "actions", "commands", "snapshots", "agents"))
    return render(request, "dashboard/search.html", context)


def _workspaces(caller, wanted):
    names = Q(key__icontains=wanted) | Q(description__icontains=wanted)
    named, _, value = wanted.partition(":")
    labelled = {"label_rows__name": named.strip(), "label_rows__value": value.strip()} if value else None
    found = names | Q(**labelled) if labelled else names | Q(label_rows__value=wanted)
    mine = Workspace.objects.visible_to(caller).kept()
    return with_what_lists_need(mine.filter(pk__in=mine.filter(found).values("pk"))).order_by("-last_active_at", "key")


def _actions(caller, wanted):
    """By what the server wrote about them, their number, and the digest on card and receipt, or its last eight."""
    found = Q(title__icontains=wanted) | Q(tool__iexact=wanted)
    if number := NUMBERED.fullmatch(wanted):
        found |= Q(number=int(number[1]))
    if DIGEST.fullmatch(compact := re.sub(r"[\s…]", "", wanted)):
        found |= Q(digest__endswith=compact.lower())
    return for_rows(Action.objects.visible_to(caller).filter(found)).order_by("-created_at")


def _commands(caller, wanted):
    mine = Command.objects.filter(workspace__in=Workspace.objects.visible_to(caller).kept())
    return mine.filter(shown__icontains=wanted).select_related("workspace__team", "effect").order_by("-effect__due_at")


def _snapshots(caller, wanted):
    mine = Snapshot.objects.filter(workspace__in=Workspace.objects.visible_to(caller).kept())
    return mine.filter(label__icontains=wanted).select_related("workspace__team").order_by("-created_at")


def _agents(caller, wanted):
    mine = Agent.objects.visible_to(caller)
    return mine.filter(Q(name__icontains=wanted) | Q(owner__username__icontains=wanted)).select_related("owner")
