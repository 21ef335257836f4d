"""The answers to an agent's question or plan: choices, comments, or leaving it to the agent's own terminal."""

from django.contrib import messages
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext
from django.views.decorators.http import require_POST

from approvals.actions import gate
from approvals.actions.decisions import MAX_COMMENT
from approvals.pages.actions import decide_and_go_on, find_action, show_card
from approvals.pages.card import Card
from approvals.pages.list_filters import chosen_filters, filter_query
from approvals.pages.own_part import answers_from, comments_from
from approvals.questions import own_questions
from approvals.questions.question_forms import Unfit
from dashboard.database import clock
from dashboard.text.visible_text import visible
from dashboard.web.pages import carry_out, must, signed_in
from dashboard.web.typed import keeps_typed

MAX_NAMED = 80  # characters of a question that a notice repeats


@signed_in
@require_POST
@keeps_typed("q*", shown_at="action")
def answer(request, pk):
    """Answer an agent's questions with the choices and words of the form."""
    card, missing = _answered(request, pk), []
    if card.action.tool not in own_questions.QUESTIONS or not card.may_decide:
        return _too_late(request, card)
    try:
        added, answers = answers_from(card)
        missing = [each for each in card.shown_questions if each.question.required and each.question.key not in answers]
        if missing:
            raise Unfit(_words_of(missing))
    except Unfit as error:
        messages.warning(request, error.args[0])
        unanswered = missing[0].name if missing else ""
        return show_card(request, card.action, status=422, given=request.POST, unanswered=unanswered)
    arguments = card.arguments | {added: answers}
    return decide_and_go_on(request, card.action, "edit", gettext("Answered"), arguments=arguments)


@signed_in
@require_POST
@keeps_typed("line-*", "comment", shown_at="action")
def plan(request, pk):
    """Approve a plan, or send it back; either way with the comments of the form."""
    card = _answered(request, pk)
    if card.action.tool != own_questions.PLAN or not card.may_decide:
        return _too_late(request, card)
    comment = comments_from(card)
    if len(comment) > MAX_COMMENT:
        messages.warning(
            request,
            gettext("The comments together are longer than %(max_comment)s characters.")
            % {"max_comment": f"{MAX_COMMENT:,}"},
        )
        return show_card(request, card.action, status=422, given=request.POST)
    if "approve" in request.POST:
        return decide_and_go_on(request, card.action, "approve", gettext("Plan approved"), comment=comment)
    return decide_and_go_on(request, card.action, "deny", gettext("Plan sent back"), comment=comment)


@signed_in
@require_POST
def leave(request, pk):
    """End the question or plan here, so that the agent asks at its own terminal."""
    card = _answered(request, pk)
    if not (card.own_label and card.is_held_by_a_hook):
        return _too_late(request, card)
    here = reverse("action", args=[pk]) + filter_query(chosen_filters(request))
    say = gettext("The agent now asks at its own terminal.")
    return carry_out(request, lambda: gate.cancel(card.action, caller=request.caller), then=here, say=say)


def _words_of(missing: list) -> str:
    """Return the sentence about questions without an answer, which names the first."""
    text = visible(missing[0].question.text[:MAX_NAMED], one_line=True)
    words = gettext("Question {} has no answer yet: “{}” It needs a choice, or your own words.")
    return format_html(words, missing[0].number, text)


def _answered(request, pk) -> Card:
    """Return the card with what the form holds. Http404, PermissionDenied."""
    found = find_action(request, pk)
    must(request.caller, "decide", found.team_id)
    card = Card(found, request.caller, clock.now())
    card.given = request.POST
    return card


def _too_late(request, card: Card):
    messages.warning(request, gettext("This can no longer be answered here."))
    return show_card(request, card.action, status=409)
