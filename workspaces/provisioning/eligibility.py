"""Decide which callers may create a workspace of which environment from which source; every create path checks here.

An environment's secrets belong to its own source: an agent gets them only with that source, and only if the
environment lists the agent (docs/decisions/0021).
"""

from collections.abc import Callable

from dashboard.models import Agent, Team
from dashboard.people.access import Caller
from dashboard.problems import conflict, invalid, not_allowed
from workspaces.drivers import capabilities
from workspaces.models import Environment, Workspace
from workspaces.provisioning import isolation
from workspaces.provisioning.git.addresses import TOLD
from workspaces.provisioning.source_history import OWN

DEFAULT = "default"  # the environment that is used where none is named
DEFAULT_MADE_OF = {"driver": capabilities.DEFAULT, "setup": "", "image": ""}


def find_environment(team: Team, name: str, caller: Caller) -> Environment:
    """Return the newest version of the named environment; Problem 422 if it is unknown or a connected folder.

    The one that is used where none is named, `default`, is made when it is first meant.
    """
    found = Environment.objects.filter(team=team, name=name).order_by("-version").first()
    if found is None and name == DEFAULT and can_make_default():
        found = made(team, DEFAULT, DEFAULT_MADE_OF)
    if found is not None and found.capabilities.own_folder and caller.is_person:
        raise invalid(f"{name!r} is a connected folder; only `manage.py connect` creates workspaces of it.")
    if found is None or found.capabilities.own_folder:
        raise invalid(f"There is no environment named {name!r}.")
    return found


def can_make_default() -> bool:
    """Return whether the driver of the environment that is used where none is named is available here."""
    return capabilities.DEFAULT in isolation.available()


def made(team: Team, name: str, made_of: dict) -> Environment:
    """Return the first version of an environment, made of these fields unless there is one with the name."""
    offered = {"minimum_isolation": isolation.offered(made_of["driver"], made_of.get("runtime_class", ""))}
    return Environment.objects.get_or_create(team=team, name=name, version=1, defaults=made_of | offered)[0]


def check(environment: Environment, source: dict, caller: Caller):
    """Raise Problem 409 or 403 unless the caller may create a workspace of this environment from this source.

    `connect` does not call this. A fork keeps the source of its original.
    """
    if environment.capabilities.own_folder:
        raise conflict("This is a connected folder; its files cannot become another workspace of the same kind.")
    if not caller.is_person and (words := why_not(environment, source, caller.agent)):
        raise not_allowed(words)


def why_not(environment: Environment, source: dict, agent: Agent) -> str:
    """Return why the agent may not use the environment's secrets with this source; "" if it may."""
    return _why_not(environment, agent, lambda: _is_foreign(source, environment))


def _why_not(environment: Environment, agent: Agent, is_foreign: Callable[[], bool]) -> str:
    if not environment.secrets:
        return ""
    if agent.name not in environment.agents:
        return f"{environment.name} has secrets, and {agent.name} isn't one of its agents."
    if is_foreign():
        return f"{environment.name} has secrets, so an agent can use it only with the environment's own source."
    return ""


def _is_foreign(source: dict, environment: Environment) -> bool:
    """Return whether the files came from elsewhere; a fork's did if they were under another environment once."""
    return bool(source.get("fork", {}).get("foreign")) or origin_of(source) != own_source(environment)


def origin_of(source: dict) -> dict | None:
    """Return the source that the files first came from, as it was requested; None if that is not known any more."""
    fork = source.get("fork")
    if fork is None:
        return {name: value for name, value in source.items() if name not in (*TOLD, *OWN)}
    if "origin" in fork:
        return fork["origin"]
    # Forks made before this was kept: look at the workspace that they were taken from.
    parent = Workspace.objects.filter(snapshots=fork["id"]).first()
    return origin_of(parent.source) if parent else None


def is_foreign_to(environment: Environment, workspace: Workspace) -> bool:
    """Return whether the files of a workspace came from elsewhere, seen by an environment that they shall be under."""
    source = workspace.source
    if "fork" in source and environment.name != workspace.environment.name:
        return True
    return _is_foreign(source, environment)


def check_under(environment: Environment, workspace: Workspace, caller: Caller):
    """Raise Problem 409 or 403 unless the caller may put the files of a workspace under this environment.

    Its setup runs on them, so it must not have secrets.
    """
    if environment.capabilities.own_folder or workspace.environment.capabilities.own_folder:
        raise conflict("The files of a connected folder stay where they are, under its own environment.")
    if words := why_no_set_up(environment):
        raise conflict(words)
    if not caller.is_person and (words := why_not_under(environment, workspace, caller.agent)):
        raise not_allowed(words)


def why_not_under(environment: Environment, workspace: Workspace, agent: Agent) -> str:
    """Return why the agent may not have the environment's secrets beside the files of a workspace; "" if it may."""
    return _why_not(environment, agent, lambda: is_foreign_to(environment, workspace))


def why_no_set_up(environment: Environment) -> str:
    """Return why setup may not run again on files that an agent may have changed; "" if it may."""
    if not environment.secrets.get("setup"):
        return ""
    return (
        f"The setup of {environment.name} uses secrets, and an agent may have changed the files it would run. "
        "Create a new workspace instead."
    )


def own_source(environment: Environment) -> dict:
    """Return the default source of a workspace; empty if the environment has no repository."""
    return {"git": environment.repository, "ref": environment.ref} if environment.repository else {}


def check_agents(team: Team, names: list[str]) -> list[str]:
    """Return the names without duplicates; Problem 422 if one is not an agent of the team."""
    names = list(dict.fromkeys(names))
    known = set(Agent.objects.filter(team=team, name__in=names).values_list("name", flat=True))
    if unknown := [name for name in names if name not in known]:
        raise invalid(f"There is no agent named {unknown[0][:80]!r} in {team.name}.")
    return names
