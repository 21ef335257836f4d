"""The answers to an agent's question or plan: choices, comments, or leaving it to the agent's own terminal."""

from django.contrib import messages
from django.urls import reverse
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
from dashboard.web.pages import carry_out, must, signed_in


@signed_in
@require_POST
def answer(request, pk):
    """Answer an agent's questions with the choices and words of the form."""
    card = _answered(request, pk)
    if card.action.tool not in own_questions.QUESTIONS or not card.may_decide:
        return _too_late(request, card)
    try:
        added, answers = answers_from(card)
        missing = any(each.question.required and each.question.key not in answers for each in card.shown_questions)
        if missing:
            raise Unfit(gettext("Each question needs a choice, or an answer in your own words."))
    except Unfit as error:
        messages.warning(request, str(error))
        return show_card(request, card.action, status=422, given=request.POST)
    arguments = card.arguments | {added: answers}
    return decide_and_go_on(request, card.action, "edit", gettext("Answered"), arguments=arguments)


@signed_in
@require_POST
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
