"""The policy files of a team's repositories: what each content says and would newly allow, and adopting it."""

from django.http import Http404
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from approvals.evaluation import policy_files
from approvals.models import PolicyFile
from approvals.pages.policy.newly_part import newly_groups_of
from approvals.pages.policy.scope import scope_of
from approvals.policy import PolicyError
from approvals.policy.repository_file import PATH
from approvals.reports.policy_changes import difference, scopes
from dashboard.problems import Problem
from dashboard.web.pages import carry_out, must, parameters, signed_in
from dashboard.workers.pool import Late

MAX_LISTED = 200


@signed_in
@require_safe
def listing(request):
    """List the contents that were seen, the newest first."""
    team = scope_of(request).team
    found = policy_files.of_team(team.pk)[:MAX_LISTED]
    return render(
        request, "approvals/policy_files.html", {"nav": "policy", "team": team, "files": found, "file_path": PATH}
    )


@signed_in
@require_safe
def file(request, pk):
    """Show one content, and what adopting it would newly allow."""
    found = _file(request, pk)
    may_write = request.caller.can("write_policy", found.team)
    context = {"nav": "policy", "file": found, "team": found.team, "file_path": PATH, "may_write": may_write}
    if not found.problem:
        context |= _meaning(found)
    return render(request, "approvals/policy_file.html", context)


def _meaning(found: PolicyFile) -> dict:
    """Return {scope, never, newly, newly_groups}, or {refused: why} for what can't be worked out in time."""
    scope = scopes.of_file(found)
    try:
        never = policy_files.never_matching(found)
        return {"scope": scope, "never": never} | newly_groups_of(difference.of_file(scope, found))
    except Problem as problem:
        why = problem.detail
    except (PolicyError, Late) as error:
        why = str(error)
    return {"scope": scope, "refused": why}


@signed_in
@require_POST
def adopt(request, pk):
    found = _file(request, pk)
    must(request.caller, "write_policy", found.team)
    sha256 = parameters(request, "sha256")["sha256"]
    say = gettext("Adopted. It may now loosen the team's policy in %(repository)s, within the floor.")
    return carry_out(
        request,
        lambda: policy_files.adopt(found, sha256, caller=request.caller),
        then=reverse("policy-file", args=[pk]),
        say=say % {"repository": found.repository},
    )


@signed_in
@require_POST
def let_go(request, pk):
    found = _file(request, pk)
    must(request.caller, "write_policy", found.team)
    return carry_out(
        request,
        lambda: policy_files.let_go(found, caller=request.caller),
        then=reverse("policy-file", args=[pk]),
        say=gettext("No longer adopted. From now on it only tightens the team's policy."),
    )


def _file(request, pk) -> PolicyFile:
    rows = PolicyFile.objects.visible_to(request.caller).select_related("team", "workspace__environment", "adopted_by")
    found = rows.filter(pk=pk).first()
    if found is None:
        raise Http404("no such policy file")
    return found
