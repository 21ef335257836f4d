"""The pages of one action: its card, the decision on it, edits, evidence and outcome."""

from csp.constants import NONCE, SELF
from csp.decorators import csp_update
from django.contrib import messages
from django.middleware.csrf import get_token
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext, gettext_lazy, ngettext
from django.views.decorators.http import require_POST, require_safe

from approvals.actions import drills, expiry, gate, questions_to_agents, solo
from approvals.actions.answer import EDIT, Answer
from approvals.evaluation.calls import parsed
from approvals.evidence import sent_by
from approvals.line_comments import drafts, placing, sending
from approvals.models import Action, Decision, Drill, Status
from approvals.notify import receipts
from approvals.pages.card import Card, for_rows
from approvals.pages.card_list import part_around
from approvals.pages.forms import edit_form
from approvals.pages.json_text import pretty
from approvals.pages.list_filters import chosen_filters, filter_query, next_card
from approvals.pages.own_titles import shown_title
from approvals.pages.revised import asked_again, revision_of
from approvals.pages.step_up import PasskeyPart, answer_of
from dashboard.database import clock
from dashboard.problems import Problem
from dashboard.templatetags.handrail import clock as clock_time
from dashboard.text.visible_text import visible
from dashboard.web.pages import READ_OR_WRITE, as_uuid, carry_out, is_wide, must, parameters, signed_in
from dashboard.web.typed import given as typed_before
from dashboard.web.typed import keeps_typed
from handrail_verify.card import read as read_statement
from workspaces.changes.diff import compare

# CodeMirror inserts style elements, which carry the nonce of the page's scripts.
styles_of_the_editor = csp_update({"style-src": [SELF, NONCE]})


DENY_STEPS = ("deny", "send_back")  # who has approved may still take these while more votes are needed
ANSWERED_BEFORE = {
    "approve": gettext_lazy("%(who)s approved this %(span)s ago. Your answer was not used."),
    "deny": gettext_lazy("%(who)s denied this %(span)s ago. Your answer was not used."),
    "edit": gettext_lazy("%(who)s changed and approved this %(span)s ago. Your answer was not used."),
}


def find_action(request, pk) -> Action:
    """Load the action and expire it if it is due. Http404."""
    action = get_object_or_404(for_rows(Action.objects.visible_to(request.caller)), pk=pk)
    expiry.end_if_due(action)
    return action


def show_card(request, action, *, step="", status=200, given=None, **more):
    """Render the card; `given` is what a person sent in its form, to be sent again."""
    caller, now = request.caller, clock.now()
    card = Card(action, caller, now)
    card.given = given or typed_before(request)
    chosen = chosen_filters(request)
    following = next_card(caller, action, now, chosen)
    placing.on_card(action, card.shown_diffs, caller)
    return render(
        request,
        "approvals/card.html",
        {
            "nav": "waiting",
            "card": card,
            "passkey": PasskeyPart(action, caller, card.may_decide),
            "beside": part_around(action, caller, now, chosen) if card.is_open and is_wide(request) else None,
            "step": step if card.may_decide or (step in DENY_STEPS and card.may_answer) else "",
            "recent_reasons": _recent_reasons(request.user, send_back=False) if card.may_answer else [],
            "send_back_reasons": _recent_reasons(request.user, send_back=True) if card.may_answer else [],
            "drafts": list(drafts.of_card(action, caller)) if card.may_comment else [],
            "said": action.messages.select_related("user").order_by("at"),
            "revised": revision_of(action),
            "asked_again": asked_again(action),
            "place": filter_query(chosen),
            "next_url": reverse("action", args=[following.pk]) + filter_query(chosen) if following else "",
            "next_label": gettext("Next: %(title)s") % {"title": shown_title(following)} if following else "",
            "may_restore": caller.can("restore", action.team_id),
            "may_undo": not card.is_open and gate.may_take_back(action, caller),
            "may_settle": caller.can("settle_unclear", action.team_id),
            **more,
        },
        status=status,
    )


def _recent_reasons(user, *, send_back: bool) -> list[str]:
    said = Decision.objects.filter(user=user, verdict="deny", do_first=send_back).exclude(comment="").order_by("-at")
    return list(dict.fromkeys(said.values_list("comment", flat=True)[:20]))[:3]


@signed_in
@require_safe
def action(request, pk):
    found = find_action(request, pk)
    if request.headers.get("X-Handrail-Refresh") != "hidden":  # not a page in a hidden tab that refreshes itself
        receipts.note_seen(found, request.user)
    return show_card(request, found)


@signed_in
@READ_OR_WRITE
@keeps_typed()
def approve(request, pk):
    found = find_action(request, pk)
    must(request.caller, "decide", found.team_id)
    if request.method != "POST":
        return show_card(request, found, step="approve")
    chosen, how = parameters(request, "envelope", "apply", "rehearsal"), _proofs(request)
    if chosen["envelope"] == "none":
        return decide_and_go_on(request, found, "approve", gettext("Approved without an envelope"), unheld=True, **how)
    if chosen["apply"] == "rehearsal":
        how |= {"apply": True, "rehearsal": chosen["rehearsal"]}
        return decide_and_go_on(request, found, "approve", gettext("Approved: the result of the try is applied"), **how)
    return decide_and_go_on(request, found, "approve", gettext("Approved"), **how)


def _proofs(request) -> dict:
    """Return what an approval brings along: what its page showed of the call, and what a passkey signed."""
    return {"rendered": read_statement(request.POST.get("rendered", "")), "passkey": answer_of(request)}


@signed_in
@require_POST
@keeps_typed(shown_at="action-approve")
def approve_alone(request, pk):
    """Approve a critical action alone, as the only person in the team who may approve."""
    found = find_action(request, pk)
    must(request.caller, "decide", found.team_id)
    typed = parameters(request, "target")["target"][:200]
    how = {"alone": solo.of_request(request, typed)} | _proofs(request)
    return decide_and_go_on(request, found, "approve", gettext("Approved by you alone"), **how)


@signed_in
@READ_OR_WRITE
@keeps_typed("comment")
def deny(request, pk):
    found = find_action(request, pk)
    must(request.caller, "decide", found.team_id)
    if request.method != "POST":
        return show_card(request, found, step="deny")
    comment = parameters(request, "comment")["comment"][:4000]
    return decide_and_go_on(request, found, "deny", gettext("Denied"), comment=comment)


@signed_in
@READ_OR_WRITE
@keeps_typed("text")
def send_back(request, pk):
    """Send the call back with what the agent should do before it makes it again."""
    found = find_action(request, pk)
    must(request.caller, "decide", found.team_id)
    if request.method != "POST":
        return show_card(request, found, step="send_back")
    text = parameters(request, "text")["text"][:4000]
    return decide_and_go_on(request, found, "deny", gettext("Sent back"), comment=text, send_back=True)


@signed_in
@READ_OR_WRITE
@keeps_typed("text")
def ask(request, pk):
    """Ask the agent about its call, which keeps waiting."""
    found = find_action(request, pk)
    must(request.caller, "decide", found.team_id)
    if request.method != "POST":
        return show_card(request, found, step="ask")
    text = parameters(request, "text")["text"]
    then = reverse("action", args=[pk]) + filter_query(chosen_filters(request))
    say = gettext("Asked %(agent)s. The call keeps waiting.") % {"agent": found.agent}
    return carry_out(
        request, lambda: questions_to_agents.ask(found, caller=request.caller, text=text), then=then, say=say
    )


@signed_in
@require_POST
def undo(request, pk):
    """Take one's own answer back, while nothing has used it."""
    found = find_action(request, pk)
    must(request.caller, "decide", found.team_id)
    here = reverse("action", args=[pk]) + filter_query(chosen_filters(request))
    say = gettext("Answer withdrawn. It needs approval again.")
    return carry_out(request, lambda: gate.take_back(found, caller=request.caller), then=here, say=say)


@signed_in
@require_POST
def extend(request, pk):
    """Extend the time in which the action may be decided."""
    found = find_action(request, pk)
    must(request.caller, "decide", found.team_id)
    here = reverse("action", args=[pk]) + filter_query(chosen_filters(request))

    def extended(_) -> str:
        found.refresh_from_db(fields=["expires_at"])
        return format_html(gettext("Extended. It now expires at {}."), clock_time(found.expires_at))

    return carry_out(request, lambda: gate.extend(found, caller=request.caller), then=here, say=extended)


def decide_and_go_on(request, found, verdict, word, **more):
    """Decide the action and go to the next card; show the card with a message if the answer was not used."""
    caller, digest = request.caller, request.POST.get("digest", "")
    own = drafts.of_card(found, caller) if verdict == "deny" and request.POST.get("comments") == "1" else None
    try:
        if own is not None and own.exists():
            decided = sending.with_denial(found, drafts=own, caller=caller, digest=digest, **more)
        else:
            decided = gate.decide(found, Answer(verdict, digest, **more), caller=caller)
    except Problem as problem:
        return _refused(request, found, problem)
    return _go_to_next(request, decided, word)


def _refused(request, found, problem):
    """Show the card as it is now, with a message about why the answer was not used."""
    found = find_action(request, found.pk)
    messages.warning(request, _conflict_message(problem))
    return show_card(request, found, status=problem.status, given=request.POST)


def _conflict_message(problem) -> str:
    winner = problem.extra.get("winner") or {}
    said = ANSWERED_BEFORE.get(winner.get("verdict"))
    if problem.extra.get("code") != "already_decided" or not said or not winner.get("at"):
        return problem.detail
    seconds = max(0, round((timezone.now() - timezone.datetime.fromisoformat(winner["at"])).total_seconds()))
    return said % {"who": winner["by"], "span": _duration_text(seconds)}


def _duration_text(seconds: int) -> str:
    if seconds >= 86400:
        return ngettext("%(n)s day", "%(n)s days", seconds // 86400) % {"n": seconds // 86400}
    if seconds >= 3600:
        return ngettext("%(n)s hour", "%(n)s hours", seconds // 3600) % {"n": seconds // 3600}
    if seconds >= 60:
        return ngettext("%(n)s minute", "%(n)s minutes", seconds // 60) % {"n": seconds // 60}
    if seconds:
        return ngettext("%(n)s second", "%(n)s seconds", seconds) % {"n": seconds}
    return gettext("a moment")


def _go_to_next(request, decided, word):
    """Redirect to the next pending card, with a message about this one."""
    chosen = chosen_filters(request)
    following = next_card(request.caller, decided, clock.now(), chosen)
    if drill := Drill.objects.filter(action=decided, answered_by=request.user).first():
        messages.info(request, drills.words(drill))
        return carry_out(request, lambda: None, then=reverse("action", args=[decided.pk]) + filter_query(chosen))
    if decided.status == Status.PENDING:
        is_voted = decided.decisions.filter(user=request.user, revision__number=decided.revision).exists()
        word = (
            gettext("Approved by you. Someone else must approve too")
            if is_voted
            else gettext("Changed. It needs approval as it is now")
        )
    address = reverse("action", args=[decided.pk])
    shown = visible(shown_title(decided), one_line=True)
    view = format_html(' · <a href="{}">{}</a>', address, gettext("View"))
    messages.success(request, format_html("{}: {}{}{}", word, shown, _undo_button(request, decided), view))
    # Who decides in a row of the list stays on the list, or at the card that is open beside it.
    where = request.POST.get("from", "")
    goes_on = as_uuid(where) if where else following and following.pk
    then = (reverse("action", args=[goes_on]) if goes_on else reverse("waiting")) + filter_query(chosen)
    if not goes_on and (task := as_uuid(chosen["task"])):
        then = reverse("task", args=[task])  # whose calls were all answered
    return carry_out(request, lambda: None, then=then)


def _undo_button(request, decided) -> str:
    """Return a form that takes the answer back; "" if something has used it already."""
    if not gate.may_take_back(decided, request.caller):
        return ""
    address = reverse("action-undo", args=[decided.pk]) + filter_query(chosen_filters(request))
    form = ' · <form class="inline-form" method="post" action="{}"><input type="hidden" name="{}" value="{}">'
    button = '<button class="plain link" data-decide>{}</button></form>'
    return format_html(form + button, address, "csrfmiddlewaretoken", get_token(request), gettext("Undo"))


@styles_of_the_editor
@signed_in
@READ_OR_WRITE
@keeps_typed("*", in_session=False)
def edit(request, pk):
    """Edit the call: show the diff first, then approve the edited version."""
    found = find_action(request, pk)
    must(request.caller, "decide", found.team_id)
    card = Card(found, request.caller, clock.now())
    if not card.may_decide:
        say = card.why_not if card.may_answer else gettext("This can no longer be changed.")
        messages.info(request, say)
        return carry_out(request, lambda: None, then=reverse("action", args=[pk]))
    form = edit_form(card, request.POST or typed_before(request) or None, as_json=request.GET.get("as") == "json")
    wanted = form.arguments() if request.method == "POST" and form.is_valid() else None
    if wanted is not None and "approve" in request.POST:
        comment = form.cleaned_data["comment"].strip()
        try:
            decided = gate.decide(
                found, Answer(EDIT, request.POST.get("digest", ""), comment, wanted), caller=request.caller
            )
        except Problem as problem:
            if problem.status != 422:
                return _refused(request, found, problem)
            form.add_error(None, problem.detail)
            wanted = None
        else:
            return _go_to_next(request, decided, gettext("Changed and approved"))
    context = {"nav": "waiting", "card": card, "form": form, "difference": wanted and _difference(card, wanted)}
    context["place"] = filter_query(chosen_filters(request))
    return render(request, "approvals/edit.html", context)


def _difference(card, wanted):
    """Return a FileDiff from the current call to the edited one; its `kind` is "same" if they are equal."""
    differ = [name for name in {**card.arguments, **wanted} if card.arguments.get(name) != wanted.get(name)]
    texts = [(card.arguments.get(name), wanted.get(name)) for name in differ]
    if len(differ) == 1 and all(isinstance(text, str) for text in texts[0]):
        name = "command.sh" if card.command is not None and differ == ["command"] else differ[0]
        diff = _compared(name, *texts[0])
    else:
        diff = _compared("arguments.json", card.arguments_json, pretty(wanted))
    if not diff.hunks:
        diff.kind = "same"
    return diff


def _compared(name: str, old: str, new: str):
    """Return the FileDiff of two texts of arguments. They are no files: a missing last newline says nothing."""
    return compare(name, f"{old}\n".encode(), f"{new}\n".encode())


@signed_in
@require_safe
def changes(request, pk):
    """Show people's edits of the call, one revision after the other."""
    card = Card(find_action(request, pk), request.caller, clock.now())
    pairs = zip(card.revisions, card.revisions[1:], strict=False)
    edits = [(old, new) for old, new in pairs if _is_edit(new)]
    steps = [{"by": new.by.get("label", ""), "at": new.created_at, "diff": _between(old, new)} for old, new in edits]
    return render(request, "approvals/changes.html", {"nav": "waiting", "card": card, "steps": steps})


@signed_in
@require_safe
def evidence(request, pk):
    """Show evidence that is slow to gather: as a partial for htmx, else as a page."""
    card = Card(find_action(request, pk), request.caller, clock.now())
    part = request.htmx and not request.htmx.history_restore_request
    placing.on_card(card.action, card.evidence_diffs, request.caller)
    template = "approvals/_evidence.html" if part else "approvals/evidence.html"
    return render(request, template, {"nav": "waiting", "card": card, "evidence": card.evidence})


@signed_in
@require_safe
def push(request, pk, line: int):
    """Show the diff that a push would send, as a page."""
    card = Card(find_action(request, pk), request.caller, clock.now())
    context = {"nav": "waiting", "card": card, "sent": [], "problem": ""}
    try:
        context["sent"] = sent_by(card.action, card.revision, line)
    except Problem as problem:
        context["problem"] = problem.detail
    return render(request, "approvals/push.html", context)


def _is_edit(revision) -> bool:
    """Return whether a person made the revision, rather than Handrail after a bound file changed."""
    return revision.by.get("type") == "person"


def _between(old, new):
    before, after = parsed(old.canonical)["arguments"], parsed(new.canonical)["arguments"]
    if isinstance(before.get("command"), str) and isinstance(after.get("command"), str):
        return _compared("command.sh", before["command"], after["command"])
    return _compared("arguments.json", pretty(before), pretty(after))


@signed_in
@require_POST
def settle(request, pk):
    """Record how an uncertain action ended, as a person reports it."""
    found = find_action(request, pk)
    must(request.caller, "settle_unclear", found.team_id)
    outcome = request.POST.get("outcome", "")
    return carry_out(
        request,
        lambda: gate.settle(found, outcome, caller=request.caller),
        then=reverse("action", args=[pk]),
        say=gettext("Marked as succeeded.") if outcome == Status.SUCCEEDED else gettext("Marked as failed."),
    )
