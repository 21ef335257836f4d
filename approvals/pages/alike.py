"""One answer for many actions that are alike: the group, exceptions ticked out, and a confirmation of its reach."""

import time
from collections import Counter

from django.contrib import messages
from django.http import Http404
from django.shortcuts import render
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext, gettext_lazy, ngettext
from django.views.decorators.http import require_safe

from approvals.actions import gate
from approvals.actions.answer import Answer
from approvals.evidence import Allowance
from approvals.models import Action, Decision
from approvals.pages import alike_numbers, together
from approvals.pages.alike_groups import MAX_ANSWERED, MIN_ALIKE, are_alike, differing, kind_of, split, sums_of
from approvals.pages.alike_table import table_of
from approvals.pages.card import Card, cards_of, for_rows
from approvals.pages.list_filters import chosen_filters, filter_query, listed_for
from approvals.pages.list_rows import title_of
from approvals.questions import own_questions
from dashboard.database import clock
from dashboard.problems import Problem
from dashboard.web.pages import READ_OR_WRITE, as_uuid, carry_out, must, parameters, signed_in

STEP_SECONDS = 0.8  # after which the page shows how far it is
EVIDENCE_SECONDS = 10  # for the evidence of all, beside 50 ms for each; one has two seconds at most
VERDICTS = {"approve": gettext_lazy("Approved"), "deny": gettext_lazy("Denied")}
# {how an action can be undone, as its chip says it (handrail.UNDO): how many of a group are so}, the worst first.
PROSPECTS = {
    "gone": gettext_lazy("%(count)s of them can't be undone now, since the snapshot was deleted"),
    "no": gettext_lazy("%(count)s of them can't be undone"),
    "kept": gettext_lazy("no snapshot of %(count)s of them"),
    "outside": gettext_lazy("%(count)s of them can be undone outside"),
    "unknown": gettext_lazy("unknown if %(count)s of them can be undone"),
    "partly": gettext_lazy("%(count)s of them can be undone in part"),
    "yes": gettext_lazy("%(count)s of them can be undone"),
}


@signed_in
@READ_OR_WRITE
def alike(request, pk):
    """Show the group of an action; POST with `step` shows the confirmation, with `verdict` it decides."""
    group = _group(request, pk)
    chosen = chosen_filters(request)
    if request.method == "POST" and request.POST.get("verdict") in VERDICTS:
        return _decide(request, group, chosen)
    if not group:
        messages.info(request, gettext("Nothing like this needs your approval any more."))
        return carry_out(request, lambda: None, then=reverse("waiting") + filter_query(chosen))
    step = request.POST.get("step", "") if request.method == "POST" else ""
    ticked = _ticked(request, group) if step in VERDICTS else []
    if step in VERDICTS and not ticked:
        messages.warning(request, gettext("Tick at least one request."))
    return render(
        request,
        "approvals/alike.html",
        {
            "nav": "waiting",
            "first": group[0],
            "title": title_of([card.action for card in group], kind_of(group[0].action)[-1]),
            "cards": group,
            "are_alike": (is_same := are_alike(card.action for card in group if card.is_short)),
            "is_one_form": bool(differing([card.action for card in group if card.is_short])),
            "is_ticked": {"all": True, "none": False}.get(request.GET.get("tick"), is_same),
            "step": step if ticked else "",
            "ticked": ticked,
            "left_out": len(group) - len(ticked),
            "prospects": [undo for undo in PROSPECTS if undo in {card.undo_shown for card in ticked or group}],
            "reach": reach_of(ticked or [card for card in group if card.is_short]),
            "place": filter_query(chosen),
        },
    )


@signed_in
@require_safe
def table(request, pk):
    """Show what differs among the calls that are like this one: the part that its row in the list opens."""
    found, of_kind = _alike_cards(request, pk)
    part = _part_of(found, of_kind)
    cards = [card for card in of_kind if card.action.pk in part]
    context = {
        "nav": "waiting",
        "cards": cards,
        "table": table_of(cards[:MAX_ANSWERED]) if cards else None,
        "left_out": len(cards[MAX_ANSWERED:]),
        "place": filter_query(chosen_filters(request)),
    }
    return render(request, f"approvals/{'_' if request.htmx else ''}alike_table.html", context)


def _alike_cards(request, pk) -> tuple[Action, list[Card]]:
    """Return the action and the cards of its kind and form in the list, in its order; Http404."""
    now = clock.now()
    found = Action.objects.visible_to(request.caller).filter(pk=pk).prefetch_related("revisions").first()
    if found is None:
        raise Http404("no such action")
    if found.tool in own_questions.TOOLS:
        return found, []
    of_agent = listed_for(request.caller, now, chosen_filters(request)).filter(
        agent=found.agent_id, tool=found.tool, quorum=1, quorum_role="", quorum_groups=[]
    )
    kind = kind_of(found)
    return found, [c for c in cards_of(for_rows(of_agent), request.caller, now) if kind_of(c.action) == kind]


def _group(request, pk) -> list[Card]:
    """Return the cards that are like this action and that the person may decide; [] if it is one alone. Http404."""
    found, of_kind = _alike_cards(request, pk)
    must(request.caller, "decide", found.team_id)
    cards = {card.action.pk: card for card in of_kind if card.may_decide}
    wanted = _part_of(found, list(cards.values())) | {
        as_uuid(each.split(":", 1)[0]) for each in request.POST.getlist("action")
    }
    like = [card for pk, card in cards.items() if pk in wanted or not card.is_short]
    return like[:MAX_ANSWERED] if len(like) >= MIN_ALIKE or request.method == "POST" else []


def _part_of(found: Action, cards: list[Card]) -> set:
    """Return the ids of the actions that are in one part with this one, as `split` makes them."""
    actions = {card.action.pk: card.action for card in cards}
    parts = split([*actions.values(), *([] if found.pk in actions else [found])])
    return next({each.pk for each in part} for part in parts if found.pk in {each.pk for each in part})


def _ticked(request, group: list[Card]) -> list[Card]:
    """Return the cards that were ticked and whose call is still the one that the form showed."""
    shown = dict(each.split(":", 1) for each in request.POST.getlist("action") if ":" in each)
    wanted = {as_uuid(pk): digest for pk, digest in shown.items()}
    return [card for card in group if card.is_short and wanted.get(card.action.pk) == card.action.digest]


def reach_of(cards: list[Card]) -> list[str]:
    """Say what an answer to these reaches: workspaces, how many can be undone and how well, and what it pays."""
    places = Counter(card.action.workspace.key if card.action.workspace else "" for card in cards)
    named = sorted(key for key in places if key)
    said = []
    if len(named) > 3:
        more = {"names": ", ".join(named[:3]), "more": len(named) - 3}
        said.append(gettext("in %(names)s and %(more)s more") % more)
    elif named:
        said.append(gettext("in %(names)s") % {"names": ", ".join(named)})
    if places[""]:
        said.append(gettext("%(count)s outside any workspace") % {"count": places[""]})
    prospects = Counter(card.undo_shown for card in cards)
    said += [words % {"count": prospects[undo]} for undo, words in PROSPECTS.items() if prospects[undo]]
    actions = [card.action for card in cards]
    sums = sums_of(actions)
    said += [gettext("%(sum)s in total") % {"sum": each} for each in sums]
    found = differing(actions)
    for each in found:
        if each.is_amount and not sums and (total := alike_numbers.total(each)):
            said.append(
                gettext("%(sum)s in total (%(name)s), in no stated currency") % {"sum": total, "name": each.name}
            )
    if found:
        said.append(gettext("different in %(numbers)s") % {"numbers": "; ".join(alike_numbers.phrases_of(found))})
    return said


def _decide(request, group: list[Card], chosen):
    """Answer the ticked requests until this step's time is over; the page continues, then reports the count."""
    verdict, ticked = request.POST["verdict"], _ticked(request, group)
    comment = parameters(request, "comment")["comment"][:4000] if verdict == "deny" else ""
    allowance = Allowance(_seconds_left(request))
    began, failed = time.monotonic(), []
    while ticked:
        action = ticked.pop(0).action
        try:
            gate.decide(action, Answer(verdict, action.digest, comment), caller=request.caller, allowance=allowance)
        except Problem as problem:
            failed.append(f"{action}: {problem.detail}")
        if time.monotonic() - began >= STEP_SECONDS:
            break
    said = _whole(request, "said", 0)
    for line in failed[: max(0, 5 - said)]:
        messages.warning(request, line)
    wanted = request.POST.getlist("of") or [each for each in request.POST.getlist("action") if ":" in each]
    said += len(failed)
    if not ticked:
        return _say_how_many(request, verdict, wanted, said, then=reverse("waiting") + filter_query(chosen))
    return _go_on(request, wanted, ticked, said=said, left_ms=int(1000 * allowance.left), comment=comment)


def _go_on(request, wanted: list[str], left: list[Card], **carried):
    """Show the progress; the page submits the remaining requests by itself."""
    progress = carried | {
        "verdict": request.POST["verdict"],
        "word": VERDICTS[request.POST["verdict"]],
        "of": wanted,
        "left": left,
        "done": len(wanted) - len(left),
        "address": request.get_full_path(),
    }
    part = "approvals/_alike_progress.html" if request.htmx else "approvals/alike_progress.html"
    return render(request, part, {"nav": "waiting", "progress": progress})


def _seconds_left(request) -> float:
    """Return the remaining time of the limit for all evidence; the page passes it from one step to the next."""
    return min(_whole(request, "left_ms", 1000 * EVIDENCE_SECONDS) / 1000, EVIDENCE_SECONDS)


def _whole(request, name: str, otherwise: int) -> int:
    sent = request.POST.get(name, "")
    return int(sent) if sent.isascii() and sent.isdigit() and len(sent) < 9 else otherwise


def _say_how_many(request, verdict: str, wanted: list[str], failed: int, *, then: str):
    """Count the answers that are in the database, whatever happened on the way, and return to the list."""
    ids = [pk for pk in (as_uuid(each.split(":", 1)[0]) for each in wanted[:MAX_ANSWERED]) if pk]
    own = Decision.objects.filter(user=request.user, verdict=verdict, final=True, action__in=ids)
    answered = list(
        Action.objects.visible_to(request.caller).filter(pk__in=own.values("action")).select_related("team")
    )
    if answered:
        words = ngettext("%(word)s: %(n)s request", "%(word)s: %(n)s requests", len(answered))
        say = words % {"word": VERDICTS[verdict], "n": len(answered)}
        messages.success(request, format_html("{}{}", say, together.links_to(request, answered)))
    if (changed := len(ids) - len(answered) - failed) > 0:
        messages.warning(
            request,
            gettext("%(changed)s had changed or ended meanwhile. They were not answered.") % {"changed": changed},
        )
    return carry_out(request, lambda: None, then=then)
