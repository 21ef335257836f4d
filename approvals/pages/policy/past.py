"""The part of the Policy page that shows the policy on the calls of the last days, and the buttons that trust."""

from django.http import Http404
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from approvals.evaluation import policies
from approvals.pages.policy.scope import scope_of
from approvals.past import report_text, trust
from approvals.past.reports import reports
from approvals.policy import PolicyError
from approvals.reports import past_calls
from approvals.reports.policy_changes.scopes import Scope
from dashboard.problems import invalid
from dashboard.web.pages import carry_out, must, parameters, signed_in
from dashboard.workers.pool import Late


def question_of(scope: Scope) -> dict | None:
    """Return what to ask approvals.past about a policy's scope; None if no connected folder is below it."""
    if scope.environment is None:
        return past_calls.of_team(scope.team)
    return past_calls.of_environment(scope.environment)


@signed_in
@require_safe
def past(request):
    """Show the report, or that it is being made. Only for who may edit the policy: it tells commands of sessions."""
    scope = scope_of(request)
    must(request.caller, "write_policy", scope.team)
    question = question_of(scope)
    context = {"nav": "policy", "scope": scope, "days": past_calls.DAYS, "nowhere": question is None}
    try:
        if question and (report := past_calls.masked(reports.of(question))):
            context |= {
                "report": report,
                "agents": report_text.agents_of(report),
                "labels": report_text.labels_of(report),
            }
    except Late as late:
        context["problem"] = gettext("The transcripts could not be read: %(late)s.") % {"late": late}
    return render(request, "approvals/_past.html" if request.htmx else "approvals/past.html", context)


@signed_in
@require_POST
def trust_one(request):
    """Save the next version of the policy, which trusts one thing more: exactly what the page showed."""
    scope = scope_of(request)
    must(request.caller, "write_policy", scope.team)
    wish = parameters(request, "kind", "label", "path", "sha256", "base")
    trusted = _trusted(wish)

    def save():
        try:
            text = trust.trusting(scope.policy.text, trusted)
        except PolicyError as error:
            raise invalid(str(error)) from None
        base = int(wish["base"]) if wish["base"].isdecimal() and len(wish["base"]) < 9 else -1
        return policies.save(text, caller=request.caller, team=scope.team, environment=scope.row, base=base)

    return carry_out(
        request,
        save,
        then=f"{reverse('policy-past')}?{scope.query}",
        say=lambda saved: (
            gettext("%(label)s is trusted from now on. Version %(number)s is now active.")
            % {"label": trusted.label, "number": saved.number}
        ),
    )


def _trusted(wish: dict) -> trust.Trusted:
    if wish["kind"] == trust.PROGRAM:
        return trust.program(wish["label"], {"path": wish["path"], "sha256": wish["sha256"]})
    if wish["kind"] == trust.PLACE:
        return trust.place(wish["label"])
    if wish["kind"] == trust.CODE_HOST:
        return trust.CODE_HOST_READS
    raise Http404("no such kind of trust")
