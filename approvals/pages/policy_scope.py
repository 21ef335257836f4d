"""What a policy applies to, as the Policy pages name it in their address: a team, an environment or a folder."""

from dataclasses import dataclass

from django.http import Http404
from django.utils.http import urlencode
from django.utils.translation import gettext

from approvals import policies
from approvals.models import Policy
from dashboard.models import Team
from workspaces.models import Environment
from workspaces.services import environments

FOLDER = "folder"


@dataclass(frozen=True)
class Scope:
    """What a policy applies to: a team, or one of its environments or connected folders."""

    team: Team
    environment: Environment | None = None
    own: Policy | None = None  # of the environment

    @property
    def policy(self) -> Policy:
        return self.own or policies.shown(self.team.pk)

    @property
    def label(self) -> str:
        if self.environment is None:
            return gettext("Team %(name)s") % {"name": self.team.name}
        words = gettext("Folder %(name)s") if self.environment.driver == FOLDER else gettext("Environment %(name)s")
        return words % {"name": self.environment.name}

    @property
    def query(self) -> str:
        """The query string of the page that shows it."""
        return urlencode(
            {"team": self.team.slug} | ({"environment": self.environment.name} if self.environment else {})
        )

    @property
    def row(self) -> Environment | None:
        """The environment version to save its next policy for; None for the team."""
        return self.own.environment if self.own else self.environment

    @property
    def base(self) -> int:
        """The number of the version that an edit starts from; 0 if there is none."""
        return self.own.number if self.own else 0 if self.environment else self.policy.number


def _team(request) -> Team:
    teams = Team.objects.visible_to(request.caller).order_by("created_at")
    if slug := request.GET.get("team"):
        teams = teams.filter(slug=slug)
    if (team := teams.first()) is None:
        raise Http404("no such team")
    return team


def scopes_of(team) -> list[Scope]:
    """Return a scope for the team and for each of its environments and connected folders."""
    newest = environments.newest([team.pk]).order_by("name")[:200]
    saved = Policy.objects.filter(team=team, active=True).exclude(environment=None).select_related("environment")
    own = {each.environment.name: each for each in saved.order_by("environment__version")}
    return [Scope(team), *(Scope(team, each, own.get(each.name)) for each in newest)]


def scope_of(request) -> Scope:
    team, name = _team(request), request.GET.get("environment")
    found = next((each for each in scopes_of(team) if name in (each.environment and each.environment.name, "")), None)
    if found is None:
        raise Http404("no such environment")
    return found
