"""What a policy applies to: a team, or one of its environments or connected folders."""

from dataclasses import dataclass

from django.utils.http import urlencode
from django.utils.translation import gettext

from approvals.evaluation import policies
from approvals.models import Policy, PolicyFile
from dashboard.models import Team
from workspaces.models import Environment
from workspaces.services import environments


@dataclass(frozen=True)
class Scope:
    """What a policy applies to: a team, or one of its environments or connected folders."""

    team: Team
    environment: Environment | None = None
    own: Policy | None = None  # of the environment

    @property
    def policy(self) -> Policy:
        return self.own or policies.for_display(self.team.pk)

    @property
    def name(self) -> str | None:
        """The environment's name; None for the team."""
        return self.environment.name if self.environment else None

    @property
    def label(self) -> str:
        if self.environment is None:
            return gettext("Team %(name)s") % {"name": self.team.name}
        words = (
            gettext("Folder %(name)s") if self.environment.capabilities.own_folder else gettext("Environment %(name)s")
        )
        return words % {"name": self.environment.name}

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """The (name, value) of the query of the page that shows it."""
        return [("team", self.team.slug), *([("environment", self.name)] if self.environment else [])]

    @property
    def query(self) -> str:
        return urlencode(self.parameters)

    @property
    def row(self) -> Environment | None:
        """The environment version to save its next policy for; None for the team."""
        return self.own.environment if self.own else self.environment

    @property
    def base(self) -> int:
        """The number of the version that an edit starts from; 0 if there is none."""
        return self.own.number if self.own else 0 if self.environment else self.policy.number

    @property
    def versions(self):
        return policies.versions(self.team.pk, self.name)


def scopes_of(team) -> list[Scope]:
    """Return a scope for the team and for each of its environments and connected folders."""
    newest = environments.newest([team.pk]).order_by("name")[:200]
    saved = Policy.objects.filter(team=team, active=True).exclude(environment=None).select_related("environment")
    own = {each.environment.name: each for each in saved.order_by("environment__version")}
    return [Scope(team), *(Scope(team, each, own.get(each.name)) for each in newest)]


def of_file(file: PolicyFile) -> Scope:
    """Return what a repository's policy file stands over: the policy of the environment that it was seen in."""
    environment = file.workspace.environment if file.workspace else None
    own = policies.own(file.team_id, environment.name) if environment else None
    return Scope(file.team, environment, own)


def find(team, name: str | None) -> Scope | None:
    """Return the scope of the environment with this name, or of the team if there is no name."""
    return next((each for each in scopes_of(team) if (name or None) == each.name), None)
