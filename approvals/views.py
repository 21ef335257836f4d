"""What waits, one card with its answer, and what was answered."""

from datetime import timedelta

from django.contrib import messages
from django.db.models import Case, IntegerField, Q, Value, When
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from approvals import endings, gate
from approvals.calls import parsed
from approvals.card import Card, cards_of, for_rows, pretty
from approvals.forms import edit_form
from approvals.models import Action, Decision, Status, Tier
from dashboard import clock
from dashboard.models import Agent
from dashboard.pages import Slice, as_uuid, asked, carry_out, must, signed_in, without
from dashboard.problems import Problem
from dashboard.templatetags.handrail import TIERS
from dashboard.visible import visible
from workspaces.diffs import compare

READ_OR_WRITE = require_http_methods(["GET", "HEAD", "POST"])
AT_ONCE = 100  # cards on Waiting
BESIDE = 30  # rows beside a card on a wide screen
OUTCOMES = {
    "waiting": ("Waiting", Q(status=Status.PENDING)),
    "ran": ("Ran", Q(status__in=[Status.SUCCEEDED, Status.RUNNING, Status.APPROVED, Status.FAILED])),
    "denied": ("Denied", Q(status=Status.DENIED)),
    "expired": ("Expired or withdrawn", Q(status__in=[Status.EXPIRED, Status.CANCELLED])),
    "wrong": ("Failed or unclear", Q(status__in=[Status.FAILED, Status.UNCERTAIN])),
    "asked": ("Asked a person", ~Q(tier__in=[Tier.LOW, Tier.MEDIUM]) & Q(grant=None)),
}


# Lists ---------------------------------------------------------------------------------------------------------------


@signed_in
@require_safe
def waiting(request):
    caller, now = request.caller, clock.now()
    chosen = asked(request, "tier", "workspace", "agent", "undo")
    pending = _pending(caller, request.user, now)
    rows = _narrowed(pending, chosen)[:AT_ONCE]
    return render(
        request,
        "approvals/waiting.html",
        {
            "nav": "waiting",
            "cards": cards_of(rows, caller, now),
            "filters": _waiting_filters(request, pending, chosen),
            "filtered": any(chosen.values()),
            "quiet": quiet_words(caller),
            "first_run": not Agent.objects.visible_to(caller).exists(),
        },
    )


def _pending(caller, user, now):
    """What waits: of the person's own agents first, then what expires soonest."""
    mine = Case(When(agent__owner=user, then=Value(0)), default=Value(1), output_field=IntegerField())
    pending = Action.objects.visible_to(caller).pending().filter(expires_at__gt=now)
    return for_rows(pending.annotate(mine=mine)).order_by("mine", "expires_at", "pk")


def _narrowed(actions, chosen):
    if chosen["tier"]:
        actions = actions.filter(tier=chosen["tier"])
    if chosen["workspace"]:
        actions = actions.filter(workspace__key=chosen["workspace"])
    if chosen["agent"]:
        actions = actions.filter(agent__name=chosen["agent"])
    if chosen["undo"]:
        actions = actions.filter(undo="no")
    return actions


def _waiting_filters(request, pending, chosen):
    """Chips of what there is to choose: (address, words, chosen, count)."""
    plain = pending.select_related(None).prefetch_related(None).order_by()
    kinds = list(plain.values_list("tier", "workspace__key", "agent__name", "undo"))
    chips = [("?", "All", not any(chosen.values()), len(kinds))]
    for place, name, words in ((0, "tier", lambda t: TIERS[t][0]), (1, "workspace", str), (2, "agent", str)):
        values = [kind[place] for kind in kinds if kind[place]]
        if len(set(values)) > 1 or chosen[name]:
            chips += [_chip(request, name, v, words(v), chosen, values.count(v)) for v in sorted(set(values))]
    if final := sum(kind[3] == "no" for kind in kinds):
        chips.append(_chip(request, "undo", "no", "Cannot be undone", chosen, final))
    return chips


def _chip(request, name, value, words, chosen, count=None):
    query = request.GET.copy()
    is_chosen = chosen[name] == value
    if is_chosen:
        query.pop(name)
    else:
        query[name] = value
    query.pop("before", None)
    return f"?{query.urlencode()}", words, is_chosen, count


def quiet_words(caller) -> str:
    """ "Nothing is waiting. Four agents are working; 31 actions ran today without asking." """
    now = timezone.now()
    agents = Agent.objects.visible_to(caller).filter(last_seen_at__gte=now - timedelta(minutes=30)).count()
    today = timezone.localtime(now).replace(hour=0, minute=0, second=0, microsecond=0)
    unasked = Q(tier__in=[Tier.LOW, Tier.MEDIUM]) | Q(grant__isnull=False)
    ran = Action.objects.visible_to(caller).filter(unasked, created_at__gte=today).count()
    works = {0: "No agent is working", 1: "One agent is working"}.get(agents, f"{agents} agents are working")
    acted = "1 action" if ran == 1 else f"{ran:,} actions"
    return f"Nothing is waiting. {works}; {acted} ran today without asking."


@signed_in
@require_safe
def history(request):
    caller = request.caller
    chosen = asked(request, "outcome", "agent", "workspace", "tier", "person", "rule")
    page = Slice(request, for_rows(_remembered(Action.objects.visible_to(caller), chosen)))
    cards = cards_of(page, caller, clock.now())
    chips = [(f"?{without(request, 'outcome')}", "All", not chosen["outcome"], None)]
    chips += [_chip(request, "outcome", name, words, chosen) for name, (words, _) in OUTCOMES.items()]
    return render(
        request,
        "approvals/history.html",
        {
            "nav": "history",
            "page": page,
            "cards": cards,
            "days": _by_day(cards),
            "chosen": chosen,
            "filtered": any(chosen.values()),
            "outcomes": chips,
            "agents": Agent.objects.visible_to(caller).select_related("owner").order_by("name")[:200],
            "tiers": [(tier.value, TIERS[tier.value][0]) for tier in Tier],
        },
    )


def _remembered(actions, chosen):
    if chosen["outcome"]:
        actions = actions.filter(OUTCOMES[chosen["outcome"]][1]) if chosen["outcome"] in OUTCOMES else actions.none()
    if chosen["agent"]:
        actions = actions.filter(agent=as_uuid(chosen["agent"]))
    if chosen["workspace"]:
        actions = actions.filter(workspace__key=chosen["workspace"])
    if chosen["tier"]:
        actions = actions.filter(tier=chosen["tier"])
    if chosen["person"]:
        actions = actions.filter(pk__in=Decision.objects.filter(user__username=chosen["person"]).values("action"))
    if chosen["rule"]:
        actions = actions.filter(revisions__rule__icontains=chosen["rule"]).distinct()
    return actions


def _by_day(cards) -> list[dict]:
    days: dict = {}
    for card in cards:
        days.setdefault(timezone.localtime(card.action.created_at).date(), []).append(card)
    return [{"day": day, "id": f"day-{day.isoformat()}", "cards": found} for day, found in days.items()]


# One card ------------------------------------------------------------------------------------------------------------


def _find(request, pk) -> Action:
    """The action, with what time has done to it applied."""
    action = get_object_or_404(for_rows(Action.objects.visible_to(request.caller)), pk=pk)
    endings.end_if_due(action)
    return action


def _show(request, action, *, step="", status=200, **more):
    caller, now = request.caller, clock.now()
    card = Card(action, caller, now)
    following = next_card(caller, action, now)
    beside = _pending(caller, request.user, now)[:BESIDE]
    return render(
        request,
        "approvals/card.html",
        {
            "nav": "waiting",
            "card": card,
            "beside": cards_of(beside, caller, now),
            "step": step if card.may_decide or (step == "deny" and card.may_answer) else "",
            "recent_reasons": _recent_reasons(request.user) if card.may_answer else [],
            "next_url": reverse("action", args=[following.pk]) if following else "",
            "next_label": f"Next: {following.title}" if following else "",
            "may_restore": caller.can("restore", action.team_id),
            "may_settle": caller.can("settle_unclear", action.team_id),
            **more,
        },
        status=status,
    )


def next_card(caller, action, now) -> Action | None:
    """The card to look at after this one: what expires soonest of what this person may still answer."""
    teams = [team for team in caller.team_ids if caller.can("decide", team)]
    open_ones = Action.objects.filter(team__in=teams).pending().filter(expires_at__gt=now).exclude(pk=action.pk)
    answered = Decision.objects.filter(user=caller.user, action__status=Status.PENDING).values("action")
    return open_ones.exclude(pk__in=answered).order_by("expires_at", "pk").first()


def _recent_reasons(user) -> list[str]:
    said = Decision.objects.filter(user=user, verdict="deny").exclude(comment="").order_by("-at")
    return list(dict.fromkeys(said.values_list("comment", flat=True)[:20]))[:3]


@signed_in
@require_safe
def action(request, pk):
    return _show(request, _find(request, pk))


@signed_in
@READ_OR_WRITE
def approve(request, pk):
    found = _find(request, pk)
    must(request.caller, "decide", found.team_id)
    if request.method != "POST":
        return _show(request, found, step="approve")
    return _decide(request, found, "approve", "Approved")


@signed_in
@READ_OR_WRITE
def deny(request, pk):
    found = _find(request, pk)
    must(request.caller, "decide", found.team_id)
    if request.method != "POST":
        return _show(request, found, step="deny")
    return _decide(request, found, "deny", "Denied", comment=asked(request, "comment")["comment"][:4000])


@signed_in
@require_POST
def extend(request, pk):
    """Let it wait longer."""
    found = _find(request, pk)
    must(request.caller, "decide", found.team_id)
    here = reverse("action", args=[pk])
    return carry_out(request, lambda: gate.extend(found, caller=request.caller), then=here)


def _decide(request, found, verdict, word, **more):
    caller = request.caller
    try:
        decided = gate.decide(found, caller=caller, verdict=verdict, digest=request.POST.get("digest", ""), **more)
    except Problem as problem:
        return _refused(request, found, problem)
    return _on_to_next(request, decided, word)


def _refused(request, found, problem):
    """The card as it is now, with who was faster on top of it."""
    found = _find(request, found.pk)
    messages.warning(request, _faster(problem))
    return _show(request, found, status=problem.status)


def _faster(problem) -> str:
    winner = problem.extra.get("winner") or {}
    said = {"approve": "approved", "deny": "denied", "edit": "changed and approved"}.get(winner.get("verdict"))
    if problem.extra.get("code") != "already_decided" or not said or not winner.get("at"):
        return problem.detail
    seconds = max(0, round((timezone.now() - timezone.datetime.fromisoformat(winner["at"])).total_seconds()))
    return f"{winner['by']} {said} this {_span(seconds)} ago. Your answer was not used."


def _span(seconds: int) -> str:
    for length, unit in ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second")):
        if seconds >= length:
            count = seconds // length
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return "a moment"


def _on_to_next(request, decided, word):
    """The next card that waits, with a line on top about this one."""
    following = next_card(request.caller, decided, clock.now())
    if decided.status == Status.PENDING:
        word = "Your approval counts; it takes one more person"
    address = reverse("action", args=[decided.pk])
    messages.success(
        request, format_html('{}: {} · <a href="{}">See</a>', word, visible(decided.title, one_line=True), address)
    )
    then = reverse("action", args=[following.pk]) if following else reverse("waiting")
    return carry_out(request, lambda: None, then=then)


@signed_in
@READ_OR_WRITE
def edit(request, pk):
    """Change what would run: look at the difference first, then approve that."""
    found = _find(request, pk)
    must(request.caller, "decide", found.team_id)
    card = Card(found, request.caller, clock.now())
    if not card.may_decide:
        messages.info(request, "This can no longer be changed.")
        return carry_out(request, lambda: None, then=reverse("action", args=[pk]))
    form = edit_form(card, request.POST or None)
    wanted = form.arguments() if request.method == "POST" and form.is_valid() else None
    if wanted is not None and "approve" in request.POST:
        comment = form.cleaned_data["comment"].strip()
        try:
            decided = gate.decide(
                found,
                caller=request.caller,
                verdict="edit",
                digest=request.POST.get("digest", ""),
                arguments=wanted,
                comment=comment,
            )
        except Problem as problem:
            if problem.status != 422:
                return _refused(request, found, problem)
            form.add_error(None, problem.detail)
            wanted = None
        else:
            return _on_to_next(request, decided, "Changed and approved")
    context = {"nav": "waiting", "card": card, "form": form, "difference": wanted and _difference(card, wanted)}
    return render(request, "approvals/edit.html", context)


def _difference(card, wanted):
    """A FileDiff from the call as it is to the call as it would be; its `kind` is "same" when there is none."""
    differ = [name for name in {**card.arguments, **wanted} if card.arguments.get(name) != wanted.get(name)]
    if card.command is not None and differ == ["command"] and isinstance(wanted.get("command"), str):
        diff = compare("command.sh", card.command.encode(), wanted["command"].encode())
    else:
        diff = compare("arguments.json", card.arguments_json.encode(), pretty(wanted).encode())
    if not diff.hunks:
        diff.kind = "same"
    return diff


@signed_in
@require_safe
def changes(request, pk):
    """What people changed about the call, revision by revision."""
    card = Card(_find(request, pk), request.caller, clock.now())
    pairs = zip(card.revisions, card.revisions[1:], strict=False)
    steps = [{"by": new.by.get("label", ""), "at": new.created_at, "diff": _between(old, new)} for old, new in pairs]
    return render(request, "approvals/changes.html", {"nav": "waiting", "card": card, "steps": steps})


@signed_in
@require_safe
def evidence(request, pk):
    """What it would do, where that takes a moment to find out: a part of the card, and a page of its own."""
    card = Card(_find(request, pk), request.caller, clock.now())
    part = request.htmx and not request.htmx.history_restore_request
    template = "approvals/_evidence.html" if part else "approvals/evidence.html"
    return render(request, template, {"nav": "waiting", "card": card, "evidence": card.evidence})


def _between(old, new):
    before, after = parsed(old.canonical)["arguments"], parsed(new.canonical)["arguments"]
    if isinstance(before.get("command"), str) and isinstance(after.get("command"), str):
        return compare("command.sh", before["command"].encode(), after["command"].encode())
    return compare("arguments.json", pretty(before).encode(), pretty(after).encode())


@signed_in
@require_POST
def settle(request, pk):
    """A person says how an unclear action ended."""
    found = _find(request, pk)
    must(request.caller, "settle_unclear", found.team_id)
    outcome = request.POST.get("outcome", "")
    return carry_out(
        request,
        lambda: gate.settle(found, outcome, caller=request.caller),
        then=reverse("action", args=[pk]),
        say="Noted: it worked." if outcome == Status.SUCCEEDED else "Noted: it did not work.",
    )


@signed_in
@READ_OR_WRITE
def rollback(request, pk):
    """To the snapshot before the action; the workspace's own page of a restore says what that means."""
    found = _find(request, pk)
    must(request.caller, "restore", found.team_id)
    if found.snapshot_before is None:
        messages.info(request, "There is no snapshot before this action.")
        return carry_out(request, lambda: None, then=reverse("action", args=[pk]))
    place = [found.workspace.team.slug, found.workspace.key, found.snapshot_before.number]
    return carry_out(request, lambda: None, then=reverse("snapshot-restore", args=place))
