"""Agents that may work in a workspace besides the one that created it."""

from django.db import transaction

from dashboard.models import Actor, Agent
from dashboard.problems import invalid
from workspaces.lifecycle import record
from workspaces.models import Workspace


def bind(workspace, names: list[str], *, by: Actor):
    """Replace the bound agents by those with these names. Problem 422 for a name that is no agent of the team."""
    wanted = {agent.name: agent for agent in Agent.objects.filter(team=workspace.team_id, name__in=names)}
    if unknown := [name for name in names if name not in wanted]:
        raise invalid(f"There is no agent named {unknown[0]!r} in this team.")
    with transaction.atomic():
        Workspace.objects.select_for_update().get(pk=workspace.pk)
        before = set(workspace.bound_agents.values_list("name", flat=True))
        added, removed = sorted(wanted.keys() - before), sorted(before - wanted.keys())
        if added or removed:
            workspace.bound_agents.set(wanted.values())
            record(workspace, by, "workspace.agents_changed", {"added": added, "removed": removed})


def bound(workspace) -> list[str]:
    return list(workspace.bound_agents.order_by("name").values_list("name", flat=True))
