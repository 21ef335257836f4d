"""What a policy applies to, as the Policy pages name it in their address: a team, an environment or a folder."""

from django.http import Http404

from approvals.reports.policy_changes import scopes
from approvals.reports.policy_changes.scopes import Scope
from dashboard.models import Team


def _team(request) -> Team:
    teams = Team.objects.visible_to(request.caller).order_by("created_at")
    if slug := request.GET.get("team"):
        teams = teams.filter(slug=slug)
    if (team := teams.first()) is None:
        raise Http404("no such team")
    return team


def scope_of(request) -> Scope:
    found = scopes.find(_team(request), request.GET.get("environment"))
    if found is None:
        raise Http404("no such environment")
    return found
