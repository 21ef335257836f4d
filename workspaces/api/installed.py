"""What was installed in the home of a workspace, and keeping it for new workspaces of its environment."""

from typing import Annotated

from ninja import Router, Schema, Status
from pydantic import Field, StringConstraints

from dashboard.problems import not_allowed, not_found
from dashboard.web.api_base import PROBLEMS
from workspaces import operations
from workspaces.api.lookup import ended_well, find, team_of
from workspaces.api.schemas import Strict
from workspaces.models import Environment
from workspaces.provisioning.install_places import PLACES
from workspaces.services.environments import installed

router = Router(tags=["environments"])


class Kept(Strict):
    folders: list[Annotated[str, StringConstraints(min_length=1, max_length=100)]] = Field(
        max_length=len(PLACES), description="paths below the home, of those with `can_be_kept`"
    )
    replace: bool = Field(
        False, description="also if the environment has files of another workspace, which the new version won't have"
    )


class InstalledOut(Schema):
    why_not: str = Field(description="why nothing can be kept, as a sentence; empty if it can")
    root: str = Field(description="what programs can install outside of the home, as a sentence")
    layer: dict | None = Field(description="what its home began with: workspace, by, at, packages, bytes, folders")
    newest_layer: dict | None = Field(description="what new workspaces of its environment begin with")
    complete: bool = Field(description="false: there is too much to count, and counts are minimums")
    hidden: list[str] = Field(description="programs that come before one of the system's with the same name")
    folders: list[dict] = Field(
        description="path, files, bytes, can_be_kept, state (new, changed or same as in the layer), "
        "packages (kind, name, version, state, was) and more_packages"
    )
    gone: list[str] = Field(description="folders of the layer that the home has no more")


class KeptOut(Schema):
    environment: str
    version: int
    layer: dict | None = Field(description="what new workspaces of this version begin with")


def _kept(environment: Environment) -> Status:
    told = {"environment": environment.name, "version": environment.version}
    return Status(201, told | {"layer": installed.as_json(environment.home_layer)})


@router.get("/workspaces/{key}/installed", response={200: InstalledOut} | PROBLEMS)
def get_installed(request, key: str):
    """Return what its home has that its environment did not give: folders, and packages where lists tell them."""
    return Status(200, installed.compare_with_layer(find(request, key)))


@router.post("/workspaces/{key}/installed", response={201: KeptOut} | PROBLEMS)
def keep_installed(request, key: str, wish: Kept):
    """Save a new version of its environment whose new workspaces begin with these folders of its home.

    Refused with the places if a secret's value is in them.
    """
    workspace = find(request, key, "manage_environments")
    operation = installed.keep_in_environment(workspace, wish.folders, replace=wish.replace, by=request.auth.actor)
    outcome = ended_well(operations.wait(operation, 120))
    return _kept(Environment.objects.select_related("home_layer").get(pk=outcome["environment"]))


@router.post("/environments/{name}/installed/undo", response={201: KeptOut} | PROBLEMS)
def undo_kept(request, name: str):
    """Save a new version of an environment with the installed files before the present ones, or with none."""
    team = team_of(request)
    rows = Environment.objects.visible_to(request.auth).filter(team=team, name=name)
    latest = rows.order_by("-version").first()
    if latest is None:
        raise not_found("environment")
    if not request.auth.can("manage_environments", team):
        raise not_allowed("You don't have permission to do this.")
    return _kept(installed.go_back(latest, by=request.auth.actor))
