"""Environments and drivers that workspaces can be created with, and new versions of environments."""

from ninja import Router, Status
from pydantic import Field

from dashboard.api_base import PROBLEMS
from dashboard.problems import invalid, not_allowed
from workspaces.api import schemas
from workspaces.api.lookup import team_of
from workspaces.models import Environment, Runner
from workspaces.provisioning import isolation
from workspaces.services import environments as environment_versions
from workspaces.services import network

router = Router(tags=["environments"])


@router.get("/environments", response={200: dict} | PROBLEMS, tags=["environments"])
def environments(request):
    """List the newest version of each environment of the team."""
    rows = Environment.objects.visible_to(request.auth).order_by("name", "-version")
    newest = {}
    for environment in rows:
        newest.setdefault(environment.name, environment)
    return Status(200, {"environments": [_shown(environment) for environment in newest.values()]})


SHOWN = (
    "name",
    "version",
    "driver",
    "image",
    "repository",
    "ref",
    "setup",
    "maintenance",
    "checks",
    "egress",
    "limits",
    "agents",
)


def _shown(environment: Environment) -> dict:
    return {name: getattr(environment, name) for name in (*SHOWN, "minimum_isolation")}


class Egress(schemas.Strict):
    setup: list[str] = Field([], max_length=200)
    agent: list[str] = Field([], max_length=200)


class NewEnvironment(schemas.Strict):
    name: str = Field(pattern=r"^[\w][\w .-]{0,79}$")
    driver: str | None = Field(None, max_length=32)
    image: str | None = Field(None, max_length=200)
    minimum_isolation: str | None = Field(None, max_length=20)
    repository: str | None = Field(None, max_length=500)
    ref: str | None = Field(None, max_length=200)
    setup: str | None = Field(None, max_length=100_000)
    maintenance: str | None = Field(None, max_length=100_000)
    checks: dict[str, str] | None = Field(None, max_length=environment_versions.MAX_CHECKS)
    egress: Egress | None = None
    agents: list[str] | None = Field(
        None, max_length=200, description="names; while it has secrets, only these create workspaces of it"
    )


@router.post("/environments", response={201: dict} | PROBLEMS)
def save_environment(request, wish: NewEnvironment):
    """Save the first version of an environment, or its next one; fields that are not given keep their values."""
    team = team_of(request)
    if not request.auth.can("manage_environments", team):
        raise not_allowed("You don't have permission to do this.")
    fields = wish.model_dump(exclude_none=True)
    name = fields.pop("name")
    if "driver" in fields and fields["driver"] not in isolation.available():
        raise invalid(f"There is no driver {fields['driver']!r} here.")
    if "egress" in fields:
        fields["egress"] = network.read_egress(fields["egress"])
    if "checks" in fields:
        fields["checks"] = environment_versions.read_checks(environment_versions.write_checks(fields["checks"]))
    latest = Environment.objects.filter(team=team, name=name).order_by("-version").first()
    return Status(201, _shown(environment_versions.save(team, name, fields, base=latest, by=request.auth.actor)))


@router.get("/drivers", response={200: dict} | PROBLEMS, tags=["environments"])
def drivers(request):
    """List each host's drivers, whether they are available there, and if not, why."""
    return Status(
        200,
        {
            "drivers": [
                {"host": runner.host, "name": name, **probe}
                for runner in Runner.objects.order_by("host")
                for name, probe in sorted(runner.capabilities.items())
            ]
        },
    )
