"""Environments and drivers that workspaces can be created with, and new versions of environments."""

from typing import Annotated

from ninja import Router, Status
from pydantic import Field, Strict, StrictInt

from dashboard.problems import invalid, not_allowed, not_found
from dashboard.web.api_base import PROBLEMS
from workspaces import operations
from workspaces.api import schemas
from workspaces.api.lookup import ended_well, team_of
from workspaces.models import AgentsTogether, Environment, Lfs, Runner, Storage, Submodules
from workspaces.provisioning import devcontainer, images, isolation
from workspaces.services import environments as environment_versions
from workspaces.services.environments import installed, pulled

router = Router(tags=["environments"])


@router.get("/environments", response={200: dict} | PROBLEMS, tags=["environments"])
def environments(request):
    """List the newest version of each environment of the team."""
    rows = Environment.objects.visible_to(request.auth).select_related("home_layer").order_by("name", "-version")
    newest = {}
    for environment in rows:
        newest.setdefault(environment.name, environment)
    runners = list(Runner.objects.alive().order_by("host"))
    return Status(200, {"environments": [_shown(environment, runners) for environment in newest.values()]})


def _shown(environment: Environment, runners: list[Runner] | None = None) -> dict:
    in_force = [limit.as_json() for limit in environment_versions.limits_of(environment, runners)]
    own = {name: getattr(environment, name) for name in NewEnvironment.model_fields}
    return (
        own
        | {"version": environment.version}
        | {"limits_in_force": in_force, "installed": installed.as_json(environment.home_layer)}
    )


class Egress(schemas.Strict):
    setup: list[str] = Field(
        [], max_length=200, description="example.org, *.example.org, example.org:8443, or a preset"
    )
    agent: list[str] = Field(
        [],
        max_length=200,
        description="the same, or with methods and paths: api.github.com READ,POST /repos/acme/*; other requests ask",
    )


class SecretNames(schemas.Strict):
    setup: list[str] = Field([], max_length=environment_versions.MAX_SECRETS, description="given to the setup only")
    agent: list[str] = Field([], max_length=environment_versions.MAX_SECRETS, description="given to every program")


class Build(schemas.Strict):
    dockerfile: str = Field("", max_length=500)
    args: dict[str, str] = Field({}, max_length=images.MAX_BUILD_ARGS)
    target: str = Field("", max_length=200)


class Limits(schemas.Strict):
    memory_bytes: int | None = Field(None, ge=64 * 1024**2)
    cpus: Annotated[float, Strict()] | None = Field(None, ge=0.1, le=1024)
    pids: int | None = Field(None, ge=16, le=4_000_000)
    disk_bytes: int | None = Field(None, ge=16 * 1024**2)


class ModelAccess(schemas.Strict):
    secret: str = Field(max_length=80, description="the secret with the key, given to Handrail for models")
    models: list[str] = Field(min_length=1, max_length=20, description="names, or patterns with *")
    tools: bool = Field(False, description="whether tools that run at the provider may be used")


Seconds = StrictInt | None


def _seconds(name: str, words: str):
    return Field(
        None, ge=0, le=environment_versions.MOST_SECONDS[name], description=f"{words}; 0: the server's setting"
    )


class NewEnvironment(schemas.Strict):
    name: str = Field(pattern=r"^\w[\w .-]*$", max_length=80)
    driver: str | None = Field(None, max_length=32)
    image: str | None = Field(None, max_length=200)
    runtime_class: str | None = Field(None, max_length=63, description="what runs the pods, or the containers")
    storage: Storage | None = Field(None, description="where a pod's files are while it is up")
    minimum_isolation: str | None = Field(None, max_length=20)
    repository: str | None = Field(None, max_length=500)
    ref: str | None = Field(None, max_length=200)
    sign_commits: bool | None = Field(
        None, description="whether commits in its workspaces are signed, if the team has a signing key"
    )
    submodules: Submodules | None = Field(None, description="what becomes of the submodules of the source")
    lfs: Lfs | None = Field(None, description="what becomes of the files of the source that git-lfs keeps")
    setup: str | None = Field(None, max_length=100_000)
    maintenance: str | None = Field(None, max_length=100_000)
    checks: dict[str, str] | None = Field(None, max_length=environment_versions.MAX_CHECKS)
    services: dict[str, str] | None = Field(
        None, max_length=environment_versions.MAX_CHECKS, description="started with the workspace, restarted on failure"
    )
    secrets: SecretNames | None = Field(None, description="names by phase; their values are set by PUT /secrets/{name}")
    egress: Egress | None = None
    upstream: str | None = Field(None, max_length=40, description="a proxy of HANDRAIL_UPSTREAMS for its workspaces")
    limits: Limits | None = Field(None, description="all of them; those that are not given have their defaults")
    build: Build | None = Field(None, description="of an image that is the path of a folder")
    variables: dict[str, str] | None = Field(None, max_length=environment_versions.MAX_VARIABLES)
    working_directory: str | None = Field(None, max_length=500, description="a folder in /workspace")
    maintenance_seconds: Seconds = _seconds("maintenance_seconds", "ended after this long")
    idle_seconds: Seconds = _seconds("idle_seconds", "paused after this long without activity")
    stop_seconds: Seconds = _seconds("stop_seconds", "stopped after being paused this long")
    snapshot_ignore: str | None = Field(
        None, max_length=20_000, description="gitignore patterns of files that snapshots leave out"
    )
    ephemeral: bool | None = Field(
        None, description="whether the files leave the host when a run has ended; the changes are kept as a patch"
    )
    agents: list[str] | None = Field(
        None, max_length=200, description="names; while it has secrets, only these create workspaces of it"
    )
    agent_programs: list[str] | None = Field(
        None, max_length=10, description="NAME@VERSION of the agents that Handrail may start in its workspaces"
    )
    model_access: dict[str, ModelAccess] | None = Field(
        None, description="by provider (anthropic, openai), what the model relay gives those agents"
    )
    agents_together: AgentsTogether | None = Field(None, description="what happens when two agents work in a workspace")


@router.post("/environments", response={201: dict} | PROBLEMS)
def save_environment(request, wish: NewEnvironment):
    """Save the first version of an environment, or its next one; fields that are not given keep their values."""
    team = team_of(request)
    if not request.auth.can("manage_environments", team):
        raise not_allowed("You don't have permission to do this.")
    fields = wish.model_dump(exclude_none=True)
    name = fields.pop("name")
    if "driver" in fields and fields["driver"] not in isolation.available():
        raise invalid(f"There is no driver {fields['driver']!r} here.", field="driver")
    if "build" in fields:
        fields["build"] = {part: value for part, value in fields["build"].items() if value}
    latest = Environment.objects.filter(team=team, name=name).order_by("-version").first()
    return Status(201, _shown(environment_versions.save(team, name, fields, base=latest, by=request.auth.actor)))


@router.post("/environments/{name}/image/pull", response={201: dict} | PROBLEMS)
def pull_image(request, name: str):
    """Let the registry of its image resolve the tag to a digest, and pull that; save it in the next version.

    Answered when it is there; 409 with the reason if it could not be had, 503 with `operation` if it takes longer.
    """
    team = team_of(request)
    latest = Environment.objects.visible_to(request.auth).filter(team=team, name=name).order_by("-version").first()
    if latest is None:
        raise not_found("environment")
    if not request.auth.can("manage_environments", team):
        raise not_allowed("You don't have permission to do this.")
    ended_well(operations.wait(pulled.ask(latest, by=request.auth.actor), 120))
    return Status(201, _shown(environment_versions.newest_of(latest)))


class DevContainer(schemas.Strict):
    text: str = Field(max_length=devcontainer.MAX_BYTES)


@router.post("/environments/devcontainer", response={200: dict} | PROBLEMS)
def read_devcontainer(request, wish: DevContainer):
    """Read a devcontainer.json: fields for `POST /environments`, and in words what is refused. Saves nothing."""
    if not request.auth.can("manage_environments", team_of(request)):
        raise not_allowed("You don't have permission to do this.")
    return Status(200, devcontainer.read(wish.text).as_json())


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
