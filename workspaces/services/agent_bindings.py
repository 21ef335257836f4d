"""Agents that may work in a workspace besides the one that created it."""

from django.db import transaction

from dashboard.models import Actor, Agent, Team
from dashboard.problems import conflict, invalid, not_found
from workspaces.lifecycle import record


def bind(workspace, names: list[str], *, by: Actor):
    """Replace the bound agents by those with these names. Problem 422 for a name that is no agent of the team."""
    wanted = {agent.name: agent for agent in Agent.objects.filter(team=workspace.team_id, name__in=names)}
    if unknown := [name for name in names if name not in wanted]:
        raise _unknown(unknown[0])
    with transaction.atomic():
        _lock(workspace)
        before = set(workspace.bound_agents.values_list("name", flat=True))
        added, removed = sorted(wanted.keys() - before), sorted(before - wanted.keys())
        if added or removed:
            workspace.bound_agents.set(wanted.values())
            _record(workspace, by, added=added, removed=removed)


def add(workspace, name: str, *, by: Actor) -> bool:
    """Bind one more agent; return False if it may work there already. Problem 422 for a name that is no agent."""
    agent = Agent.objects.filter(team=workspace.team_id, name=name).first()
    if agent is None:
        raise _unknown(name)
    with transaction.atomic():
        _lock(workspace)
        if agent.pk == workspace.created_by_agent_id or workspace.bound_agents.filter(pk=agent.pk).exists():
            return False
        workspace.bound_agents.add(agent)
        _record(workspace, by, added=[name], removed=[])
    return True


def remove(workspace, name: str, *, by: Actor):
    """Unbind one agent. Problem 404 if there is none of this name, 409 if it is not bound or created the workspace."""
    agent = Agent.objects.filter(team=workspace.team_id, name=name).first()
    if agent is None:
        raise not_found("agent")
    with transaction.atomic():
        _lock(workspace)
        if not workspace.bound_agents.filter(pk=agent.pk).exists():
            if agent.pk == workspace.created_by_agent_id:
                raise conflict(f"{name} created {workspace.key}, so it may always work there.", code="created_it")
            raise conflict(f"{name} isn't bound to {workspace.key}.", code="not_bound")
        workspace.bound_agents.remove(agent)
        _record(workspace, by, added=[], removed=[name])


def bound(workspace) -> list[str]:
    return list(workspace.bound_agents.order_by("name").values_list("name", flat=True))


def _unknown(name: str):
    return invalid(f"There is no agent named {name!r} in this team.")


def _lock(workspace):
    Team.objects.take_turn(workspace.team_id)


def _record(workspace, by: Actor, **changed):
    record(workspace, by, "workspace.agents_changed", changed)
