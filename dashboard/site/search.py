"""Search by name, number or words in what the person may see."""

import json
import re

from django.db.models import BinaryField, BooleanField, F, Func, Q, Value
from django.shortcuts import render
from django.views.decorators.http import require_safe

from approvals.models import Action, Revision
from approvals.pages.card import cards_of, for_rows
from dashboard import clock
from dashboard.models import Agent
from dashboard.pages import asked, signed_in
from workspaces.models import Command, Snapshot, Workspace, WorkspaceLabel
from workspaces.pages.header import with_display_columns

MAX_RESULTS = 20  # of each kind
MAX_QUERY_CHARS = 200
MAX_WORDS = 20
NUMBERED = re.compile(r"(?:a-?)?(\d{1,9})", re.IGNORECASE)
DIGEST = re.compile(r"[0-9a-f]{8}|[0-9a-f]{64}", re.IGNORECASE)


class ContainsBytes(Func):
    """Whether the first argument (bytes) contains the second."""

    output_field = BooleanField()
    template = "(INSTR(%(expressions)s) > 0)"

    def as_postgresql(self, compiler, connection, **context):
        # POSITION takes the searched-for bytes first.
        swapped = Func(
            *reversed(self.source_expressions), template="(POSITION(%(expressions)s) > 0)", arg_joiner=" IN "
        )
        return swapped.as_sql(compiler, connection, **context)


def _as_stored(text: str) -> bytes:
    """Return the text as written inside a string of canonical JSON."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")


@signed_in
@require_safe
def search(request):
    caller = request.caller
    wanted = asked(request, "q")["q"][:MAX_QUERY_CHARS]
    context = {"nav": "search", "q": wanted, "at_most": MAX_RESULTS}
    if wanted:
        context |= {
            "workspaces": list(_workspaces(caller, wanted)[:MAX_RESULTS]),
            "actions": cards_of(_actions(caller, wanted)[:MAX_RESULTS], caller, clock.now()),
            "commands": list(_commands(caller, wanted)[:MAX_RESULTS]),
            "snapshots": list(_snapshots(caller, wanted)[:MAX_RESULTS]),
            "agents": list(_agents(caller, wanted)[:MAX_RESULTS]),
        }
        context["found"] = any(context[kind] for kind in ("workspaces", "actions", "commands", "snapshots", "agents"))
    return render(request, "dashboard/search.html", context)


def _words(wanted) -> list[str]:
    return list(dict.fromkeys(wanted.split()))[:MAX_WORDS]


def _each(wanted, own, around=None) -> Q:
    """Match rows that contain every word, in any order, at least one of them in `own` rather than `around`."""
    words = _words(wanted)
    if around is None or len(words) == 1:
        return Q(*map(own, words))
    return Q(*(own(word) | around(word) for word in words)) & Q(*map(own, words), _connector=Q.OR)


def _workspaces(caller, wanted):
    def own(word):
        return Q(key__icontains=word) | Q(description__icontains=word) | labelled(word)

    def labelled(text):
        name, _, value = text.partition(":")
        rows = WorkspaceLabel.objects.filter(Q(value=text) | Q(name=name.strip(), value=value.strip() or text))
        return Q(pk__in=rows.values("workspace"))

    found = _each(wanted, own) | labelled(wanted)
    mine = Workspace.objects.visible_to(caller).kept()
    return with_display_columns(mine.filter(found)).order_by("-last_active_at", "key")


def _actions(caller, wanted):
    """Match titles, the text of the call, tool, number and agent, and the digest or its last eight characters."""

    def own(word):
        asked_for = Revision.objects.filter(ContainsBytes(F("canonical"), Value(_as_stored(word), BinaryField())))
        found = Q(title__icontains=word) | Q(tool__iexact=word) | Q(pk__in=asked_for.values("action"))
        number = NUMBERED.fullmatch(word)
        return found | Q(number=int(number[1])) if number else found

    def around(word):
        return Q(agent__name__icontains=word)

    found = _each(wanted, own, around)
    if DIGEST.fullmatch(compact := re.sub(r"[\s…]", "", wanted)):
        found |= Q(digest__endswith=compact.lower())
    return for_rows(Action.objects.visible_to(caller).filter(found)).order_by("-created_at")


def _in_workspace(word):
    return Q(workspace__key__icontains=word)


def _commands(caller, wanted):
    mine = Command.objects.filter(workspace__in=Workspace.objects.visible_to(caller).kept())
    found = mine.filter(_each(wanted, lambda word: Q(shown__icontains=word), _in_workspace))
    return found.select_related("workspace__team", "operation").order_by("-operation__due_at")


def _snapshots(caller, wanted):
    mine = Snapshot.objects.filter(workspace__in=Workspace.objects.visible_to(caller).kept())
    found = mine.filter(_each(wanted, lambda word: Q(label__icontains=word), _in_workspace))
    return found.select_related("workspace__team").order_by("-created_at")


def _agents(caller, wanted):
    def own(word):
        return Q(name__icontains=word) | Q(owner__username__icontains=word)

    return Agent.objects.visible_to(caller).filter(_each(wanted, own)).select_related("owner")
