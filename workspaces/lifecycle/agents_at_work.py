"""Two agents in one workspace: allowed, warned of, or one at a time, as its environment says.

`enter` is passed by all that an agent asks for in a workspace: each request of the API that is more than reading, and
each call at the gate. An agent is at work for some minutes after that, and while something that it began still runs.
"""

from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import CharField, DateTimeField, Exists, OuterRef, Q, UUIDField
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from dashboard.database import clock
from dashboard.database.prepared import Prepared, Slot
from dashboard.models import Agent, Event, Team
from dashboard.problems import conflict
from workspaces import extensions
from workspaces.models import AgentAtWork, AgentsTogether, Operation, Workspace

MINUTES = 10  # after the last thing that an agent did, in which it counts as at work
SESSION = timedelta(minutes=MINUTES)
WRITE_EVERY = timedelta(seconds=5)
RECORD_EVERY = timedelta(minutes=1)  # at most one event of refusals to one agent
LASTING = ("service", "terminal")  # operations that may stay open without anybody at work
CODE = "agent_at_work"  # of the Problem


def enter(workspace: Workspace, caller):
    """Note that an agent works in the workspace. Problem 409 while another does, where only one at a time may.

    Call it outside of a transaction: the event of a refusal is to stay.
    """
    if caller.is_person:
        return
    now, rule = clock.now(), workspace.environment.agents_together
    if rule != AgentsTogether.ONE:
        _note(workspace, caller.agent, now)
        return
    with Team.objects.turn(workspace.team_id):  # two that come at once do not both enter
        holder = next(iter(others(workspace, caller.agent, now)), None)
        if holder is None:
            _note(workspace, caller.agent, now)
            return
        _record_refusal(workspace, caller, holder, now)
    raise conflict(
        f"{holder} is at work in {workspace.key}, where one agent at a time may work. Try again when it has done "
        f"nothing for {MINUTES} minutes, or work in a fork.",
        code=CODE,
        holder=holder.name,
    )


def _note(workspace: Workspace, agent: Agent, now: datetime):
    known = AgentAtWork.objects.filter(workspace=workspace, agent=agent)
    noted = known.values_list("at", flat=True)[:1]
    if any(at and at >= now - WRITE_EVERY for at in noted):
        return
    if not known.update(at=now):
        AgentAtWork.objects.get_or_create(workspace=workspace, agent=agent, defaults={"at": now})


def _record_refusal(workspace: Workspace, caller, holder: Agent, now: datetime):
    mine, _ = AgentAtWork.objects.get_or_create(workspace=workspace, agent=caller.agent)
    due = Q(refused_at=None) | Q(refused_at__lt=now - RECORD_EVERY)
    if AgentAtWork.objects.filter(due, pk=mine.pk).update(refused_at=now):
        data = {"holder": holder.name, "key": workspace.key}
        about = {"subject": workspace, "workspace": workspace, "data": data}
        Event.objects.record(workspace.team_id, actor=caller.actor, verb="workspace.agent_refused", **about)


def at_work(workspace: Workspace, now: datetime) -> list[Agent]:
    """Return the agents at work in the workspace, by name."""
    return at_work_in([workspace], now).get(workspace.pk, [])


def at_work_in(workspaces: list[Workspace], now: datetime) -> dict[UUID, list[Agent]]:
    """Return {workspace id: agents at work in it, by name} in a constant number of queries; none: no entry."""
    recent = AgentAtWork.objects.filter(workspace__in=workspaces, at__gt=now - SESSION)
    running = Operation.objects.open().filter(workspace__in=workspaces, by__type="agent").exclude(kind__in=LASTING)
    found = {(place, str(agent)) for place, agent in recent.values_list("workspace", "agent")}
    found |= set(running.values_list("workspace", "by__id"))
    found |= extensions.ports.agents_at_work(workspaces, now)
    if not found:
        return {}
    teams = {workspace.pk: workspace.team_id for workspace in workspaces}
    agents = list(Agent.objects.filter(pk__in={agent for _, agent in found}).order_by("name"))
    here = {
        place: [each for each in agents if (place, str(each.pk)) in found and each.team_id == team]
        for place, team in teams.items()
    }
    return {place: names for place, names in here.items() if names}


def others(workspace: Workspace, agent: Agent, now: datetime) -> list[Agent]:
    if not _is_anybody_else(workspace, agent, now):
        return []
    return [found for found in at_work(workspace, now) if found.pk != agent.pk]


def _is_anybody_else(workspace: Workspace, agent: Agent, now: datetime) -> bool:
    """Return whether any other agent may be at work: as a rule none is, and this takes fewer queries to find out."""
    calling = extensions.ports.agents_at_work([workspace], now) - {(workspace.pk, str(agent.pk))}
    of_this = {"workspace": workspace.pk, "agent": agent.pk, "its_id": str(agent.pk), "since": now - SESSION}
    return bool(calling) or bool(_ELSE.rows(**of_this))


def _where_anybody_else_is():
    workspace, agent = (Slot(name, UUIDField()) for name in ("workspace", "agent"))
    since, its_id = Slot("since", DateTimeField()), Slot("its_id", CharField())
    recent = AgentAtWork.objects.filter(workspace=OuterRef("pk"), at__gt=since).exclude(agent=agent)
    running = Operation.objects.open().filter(workspace=OuterRef("pk"), by__type="agent").exclude(kind__in=LASTING)
    running = running.alias(its_id=Cast(KeyTextTransform("id", "by"), CharField())).exclude(its_id=its_id)
    return Workspace.objects.filter(Exists(recent) | Exists(running), pk=workspace).values_list("pk")


_ELSE = Prepared(_where_anybody_else_is)


def hint_for(workspace: Workspace | None, caller) -> list[str]:
    """Return the names of the other agents at work, for an agent's answer; [] where that is no matter."""
    if caller.is_person or workspace is None or workspace.environment.agents_together == AgentsTogether.ALLOW:
        return []
    return [found.name for found in others(workspace, caller.agent, clock.now())]


def warning_for(workspace: Workspace | None, caller) -> str:
    """Return a sentence about the other agents at work, once in MINUTES for each agent; "" otherwise."""
    names = hint_for(workspace, caller)
    if not names:
        return ""
    now = clock.now()
    due = Q(warned_at=None) | Q(warned_at__lt=now - SESSION)
    mine = AgentAtWork.objects.filter(due, workspace=workspace, agent=caller.agent)
    if not mine.update(warned_at=now):
        return ""
    who = ", ".join(names)
    verb = "is" if len(names) == 1 else "are"
    return (
        f"{who} {verb} at work in {workspace.key} too, on the same files. Look at what changed before you write, and "
        "do not undo what is not yours."
    )
