"""Search by name, number or words in what the person may see: rows here, long texts in search_text."""

import json
import re
from dataclasses import replace
from urllib.parse import urlencode

from django.contrib.auth import get_user_model
from django.db.models import BinaryField, BooleanField, Exists, F, Func, OuterRef, Q, Value
from django.db.models.functions import Coalesce
from django.shortcuts import render
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_safe

from approvals.models import Action, Decision, Revision
from approvals.pages.card import cards_of, for_rows
from dashboard.database import clock
from dashboard.models import Agent
from dashboard.problems import Problem
from dashboard.site import search_conversations, search_text
from dashboard.site.search_limits import Limits, Scan, newest
from dashboard.web import spans
from dashboard.web.lookup import Order
from dashboard.web.pages import as_uuid, parameters, signed_in, without
from workspaces.models import Command, Snapshot, Workspace, WorkspaceLabel
from workspaces.pages.header import with_display_columns

MAX_RESULTS = 10  # of each kind, when all kinds are searched
MAX_OF_ONE = 200  # of one kind alone
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


# Kinds of results, in the order of the page: those of rows, then those of texts (search_text).
KINDS = {
    "workspaces": gettext_lazy("Workspaces"),
    "actions": gettext_lazy("Actions"),
    "commands": gettext_lazy("Commands"),
    "snapshots": gettext_lazy("Snapshots"),
    "agents": gettext_lazy("Agents"),
    "files": gettext_lazy("Files"),
    "outputs": gettext_lazy("Output and terminals"),
    "said": gettext_lazy("Messages and prompts"),
    "conversations": gettext_lazy("Conversations"),
    "events": gettext_lazy("Log"),
}
TEXTS = {"files": search_text.files, "outputs": search_text.outputs, "said": search_text.search_conversations}
TEXTS |= {"conversations": search_conversations.conversations, "events": search_text.events}
SCANNED = ("files", "outputs")
NAMES = ("q", "kind", "workspace", "at", "since", "until", "agent", "person", "before")
SECONDS, SECONDS_OF_ONE = 0.4, 3.0  # for each scan of recordings and files: among all kinds, and alone
SECONDS_OF_ROWS = 0.01  # for each kind of rows among all kinds; the newest are always searched


@signed_in
@require_safe
def search(request):
    caller, named = request.caller, parameters(request, *NAMES)
    wanted, kind = named["q"][:MAX_QUERY_CHARS], named["kind"] if named["kind"] in KINDS else ""
    context = {"nav": "search", "q": wanted, "named": named, "kind": kind, "kinds": _kinds(request, kind)}
    if wanted:
        found, limits = _found_for_page(caller, wanted, kind, named)
        context |= {
            "at_most": limits.most,
            "words": _search_terms(wanted),
            "found": any(scan.hits for scan in found.values()),
        }
        if "actions" in found:
            found["actions"].hits = cards_of(found["actions"].hits, caller, clock.now())
        context["parts"] = [_shown(request, name, scan, kind) for name, scan in found.items()]
        context["newest"] = f"?{without(request)}" if limits.before else ""
    return render(request, "dashboard/search.html", context)


def _found_for_page(caller, wanted: str, kind: str, named: dict) -> tuple[dict, Limits]:
    """Search from the cursor of the address on; from the beginning if it was cut or mistyped."""
    limits = limits_of(caller, named, kind)
    try:
        return found_of(caller, wanted, kind, limits), limits
    except Problem:
        limits = limits_of(caller, named | {"before": ""}, kind)
        return found_of(caller, wanted, kind, limits), limits


def limits_of(caller, named: dict, kind: str) -> Limits:
    """Return what the query string limits the search to; an invalid date or number limits nothing."""
    at = named["at"]
    return Limits(
        most=MAX_OF_ONE if kind else MAX_RESULTS,
        seconds=SECONDS_OF_ONE if kind else SECONDS,
        since=spans.moment_of(named["since"]),
        until=spans.moment_of(named["until"], days=1),
        workspace=named["workspace"],
        at=int(at) if named["workspace"] and at.isdecimal() and len(at) < 9 else None,
        agents=agents_named(caller, named["agent"]),
        people=people_named(caller, named["person"]),
        before=named["before"] if kind else "",
    )


def agents_named(caller, name: str) -> tuple | None:
    """Return the ids of the caller's agents with this name or id; None if none is asked for."""
    found = Agent.objects.visible_to(caller).filter(Q(name=name) | Q(pk=as_uuid(name)))
    return tuple(found.values_list("pk", flat=True)) if name else None


def people_named(caller, name: str) -> tuple | None:
    """Return the id of the person in the caller's teams with this name; None if nobody is asked for."""
    found = get_user_model().objects.filter(username=name, memberships__team__in=caller.team_ids).distinct()
    return tuple(found.values_list("pk", flat=True)) if name else None


def found_of(caller, wanted: str, kind: str, limits: Limits) -> dict[str, Scan]:
    """Return {kind: Scan} of one kind or all, the newest first. Problem 422 for an invalid cursor."""
    found = {}
    for name in [kind] if kind else KINDS:
        quick = replace(limits, seconds=min(limits.seconds, SECONDS_OF_ROWS))
        if name in ROWS:
            found[name] = ROWS[name](caller, wanted, limits if kind else quick)
        elif name not in SCANNED:
            found[name] = TEXTS[name](caller, _search_terms(wanted), limits if kind else quick)
        elif search_text.is_scannable(_search_terms(wanted)):
            found[name] = TEXTS[name](caller, _search_terms(wanted), limits)
    return found


def _kinds(request, kind: str) -> list[tuple]:
    """Return the kinds for parts/filters.html."""
    rest = without(request, "kind")
    chips = [(f"?{rest}", gettext("All"), not kind, None)]
    return chips + [(f"?kind={name}&{rest}", label, name == kind, None) for name, label in KINDS.items()]


def _shown(request, name: str, scan: Scan, kind: str) -> dict:
    """Return one kind as the page shows it, with the address of what is older or was not searched."""
    more = f"?kind={name}&{without(request, 'kind')}"
    if kind:
        more = f"{more}&{urlencode({'before': scan.cursor})}" if scan.cursor else ""
    elif not (scan.cursor or scan.is_cut):
        more = ""
    return {"name": name, "label": KINDS[name], "scan": scan, "more": more}


def _search_terms(wanted) -> list[str]:
    return list(dict.fromkeys(wanted.split()))[:MAX_WORDS]


def _each(wanted, own, around=None) -> Q:
    """Match rows that contain every word, in any order, at least one of them in `own` rather than `around`."""
    words = _search_terms(wanted)
    if around is None or len(words) == 1:
        return Q(*map(own, words))
    return Q(*(own(word) | around(word) for word in words)) & Q(*map(own, words), _connector=Q.OR)


def _workspaces(caller, wanted, limits: Limits) -> Scan:
    def own(word):
        return Q(key__icontains=word) | Q(description__icontains=word) | labelled(word)

    def labelled(text):
        name, _, value = text.partition(":")
        rows = WorkspaceLabel.objects.filter(Q(value=text) | Q(name=name.strip(), value=value.strip() or text))
        return Q(pk__in=rows.values("workspace"))

    mine = Workspace.objects.visible_to(caller).kept().filter(limits.times("last_active_at"), limits.workspaces())
    mine = mine.filter(key=limits.workspace) if limits.workspace else mine
    rows = with_display_columns(mine).annotate(active_at=Coalesce("last_active_at", "created_at"))
    return newest(rows, _each(wanted, own) | labelled(wanted), Order("active_at"), limits)


def _actions(caller, wanted, limits: Limits) -> Scan:
    """Match titles, the text of the call, tool, number and agent, and the digest or its last eight characters."""

    def own(word):
        asked_for = ContainsBytes(F("canonical"), Value(_as_stored(word), BinaryField()))
        found = Q(title__icontains=word) | Q(tool__iexact=word)
        # A revision is never older than its action. With this condition PostgreSQL reads only the revisions of the
        # actions that it compares, by index, instead of the whole table.
        revisions = Revision.objects.filter(asked_for, action=OuterRef("pk"), created_at__gte=OuterRef("created_at"))
        found |= Q(Exists(revisions))
        number = NUMBERED.fullmatch(word)
        return found | Q(number=int(number[1])) if number else found

    def around(word):
        return Q(agent__name__icontains=word)

    found = _each(wanted, own, around)
    if DIGEST.fullmatch(compact := re.sub(r"[\s…]", "", wanted)):
        found |= Q(digest__endswith=compact.lower())
    rows = Action.objects.visible_to(caller).filter(limits.times("created_at"))
    if limits.agents is not None:
        rows = rows.filter(agent__in=limits.agents)
    if limits.people is not None:  # who answered
        rows = rows.filter(pk__in=Decision.objects.filter(user__in=limits.people).values("action"))
    return newest(for_rows(_in_chosen_workspace(rows, limits)), found, Order(), limits)


def _in_chosen_workspace(rows, limits: Limits):
    return rows.filter(workspace__key=limits.workspace) if limits.workspace else rows


def _in_workspace(word):
    return Q(workspace__key__icontains=word)


def _of_visible_workspaces(rows, caller, limits: Limits):
    """Limit rows by EXISTS: with a list of ids a database scans workspace by workspace instead of rows by time."""
    visible = Workspace.objects.visible_to(caller).kept().filter(pk=OuterRef("workspace"))
    return _in_chosen_workspace(rows.filter(Exists(visible), limits.times("created_at"), limits.made("by")), limits)


def _commands(caller, wanted, limits: Limits) -> Scan:
    rows = _of_visible_workspaces(Command.objects.select_related("workspace__team", "operation"), caller, limits)
    found = _each(wanted, lambda word: Q(shown__icontains=word), _in_workspace)
    return newest(rows, found, Order(), limits, walked=Command.objects.all())


def _snapshots(caller, wanted, limits: Limits) -> Scan:
    rows = _of_visible_workspaces(Snapshot.objects.select_related("workspace__team"), caller, limits)
    found = _each(wanted, lambda word: Q(label__icontains=word), _in_workspace)
    return newest(rows, found, Order(), limits, walked=Snapshot.objects.all())


def _agents(caller, wanted, limits: Limits) -> Scan:
    """Match agents by their names; they have no time and no workspace."""

    def own(word):
        return Q(name__icontains=word) | Q(owner__username__icontains=word)

    rows = Agent.objects.visible_to(caller).filter(limits.of("pk", "owner")).select_related("owner")
    return newest(rows.none() if limits.workspace else rows, _each(wanted, own), Order(), limits)


ROWS = {"workspaces": _workspaces, "actions": _actions, "commands": _commands}
ROWS |= {"snapshots": _snapshots, "agents": _agents}
