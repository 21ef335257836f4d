"""What there is to make workspaces from, and a new version of it."""

from ninja import Router, Status
from pydantic import Field

from dashboard.contract import PROBLEMS
from dashboard.problems import invalid, not_allowed
from workspaces import environments as environment_versions
from workspaces import isolation, network, schemas
from workspaces.api.finding import team_of
from workspaces.models import Environment, Runner

router = Router(tags=["environments"])


@router.get("/environments", response={200: dict} | PROBLEMS, tags=["environments"])
def environments(request):
    """The newest version of each environment of the team."""
    rows = Environment.objects.visible_to(request.auth).order_by("name", "-version")
    newest = {}
    for environment in rows:
        newest.setdefault(environment.name, environment)
    return Status(200, {"environments": [_shown(environment) for environment in newest.values()]})


SHOWN = ("name", "version", "driver", "image", "repository", "ref", "setup", "checks", "egress", "limits")


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
    checks: dict[str, str] | None = Field(None, max_length=environment_versions.CHECKS_AT_MOST)
    egress: Egress | None = None


@router.post("/environments", response={201: dict} | PROBLEMS)
def save_environment(request, wish: NewEnvironment):
    """The first version of an environment, or its next; what is not named stays as it was."""
    team = team_of(request)
    if not request.auth.can("manage_environments", team):
        raise not_allowed("Your role does not allow that here.")
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
    """What the hosts can do, and why not."""
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
