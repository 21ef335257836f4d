"""Old versions of a policy: each with its text, the difference between any two, and the way back."""

from django.http import Http404
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from approvals.models import Policy
from approvals.pages.policy.scope import scope_of
from approvals.reports.policy_changes import history
from approvals.reports.policy_changes.scopes import Scope
from dashboard.problems import Problem
from dashboard.web.pages import carry_out, compared_versions, must, parameters, signed_in, version_number

MAX_LISTED = 200


@signed_in
@require_safe
def versions(request):
    """List the versions, and show the difference between the two that are chosen."""
    scope = scope_of(request)
    listed = list(scope.versions.defer("text").select_related("by")[:MAX_LISTED])
    numbers = [version.number for version in listed]
    from_, to = compared_versions(request, numbers)
    context = {"nav": "policy", "scope": scope, "versions": listed, "numbers": numbers, "to": to, "from_": from_}
    context["hidden"] = scope.parameters
    if to is not None and from_ is not None:
        context["difference"] = history.difference(_version(scope, from_), _version(scope, to))
    return render(request, "approvals/policy_versions.html", context)


@signed_in
@require_safe
def version(request, number: int):
    """Show one version's text, and what going back to it would change."""
    scope = scope_of(request)
    shown = _version(scope, number)
    current = scope.policy
    context = {
        "nav": "policy",
        "scope": scope,
        "version": shown,
        "current": current,
        "may_write": request.caller.can("write_policy", scope.team),
        "difference": None if shown.active else history.difference(current, shown),
    }
    return render(request, "approvals/policy_version.html", context)


@signed_in
@require_POST
def go_back(request, number: int):
    """Make an old version's text active again, as the next version."""
    scope = scope_of(request)
    must(request.caller, "write_policy", scope.team)
    chosen, base = _version(scope, number), version_number(parameters(request, "base")["base"])
    here = f"?{scope.query}"
    return carry_out(
        request,
        lambda: history.go_back(scope, chosen, caller=request.caller, base=base),
        then=reverse("policy") + here,
        otherwise=reverse("policy-version", args=[number]) + here,
        say=lambda saved: (
            gettext("Version %(number)s is now active: the text of version %(old)s.")
            % {"number": saved.number, "old": number}
        ),
    )


def _version(scope: Scope, number: int) -> Policy:
    try:
        return history.find(scope, number)
    except Problem:
        raise Http404("no such version") from None
