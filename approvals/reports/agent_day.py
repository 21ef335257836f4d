"""What one agent did on one day: its calls and how they were answered, commands, changes, hosts, and what was said."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Q

from approvals.models import Action, ActionMessage, AgentMessage, SessionPrompt, Status, Tier
from approvals.reports.changed_since import Answer, changed_since
from dashboard.models import Agent, Event
from workspaces.models import Command, Contact, Workspace

MAX_SHOWN = 50  # of each kind besides actions


@dataclass
class Day:
    """`counts` are {calls, unasked, asked, denied, failed, waiting}; lists have the newest first, at most MAX_SHOWN."""

    counts: dict
    changed: Answer
    prompts: list[SessionPrompt]
    commands: list[Command]
    hosts: list[Contact]
    questions: list[ActionMessage]
    messages: list[AgentMessage]


def actions_of(agent: Agent, caller, since: datetime, until: datetime):
    return Action.objects.visible_to(caller).filter(agent=agent, created_at__gte=since, created_at__lt=until)


def places_of(agent: Agent, caller):
    """Return the workspaces in which the agent may work."""
    may = Q(created_by_agent=agent) | Q(pk__in=agent.bound_workspaces.values("pk"))
    return Workspace.objects.visible_to(caller).kept().filter(may).select_related("team").order_by("key")


def day_of(agent: Agent, caller, since: datetime, until: datetime) -> Day:
    """Return the agent's day in a constant number of queries."""
    inside = {"at__gte": since, "at__lt": until}
    actions = actions_of(agent, caller, since, until)
    ran_in = Action.objects.visible_to(caller).filter(agent=agent, consumed_at__gte=since, consumed_at__lt=until)
    workspaces = ran_in.exclude(workspace=None).values("workspace")
    said = ActionMessage.objects.filter(action__agent=agent, **inside).select_related("action", "user")
    messages = AgentMessage.objects.filter(agent=agent, **inside).select_related("user")
    return Day(
        counts=_counts(actions),
        changed=changed_since(caller, since, until, workspaces=workspaces),
        prompts=list(SessionPrompt.objects.filter(agent=agent, **inside).order_by("-at")[:MAX_SHOWN]),
        commands=_commands(agent, caller, inside),
        hosts=list(
            Contact.objects.filter(workspace__in=workspaces, last_at__gte=since, first_at__lt=until)
            .select_related("workspace__team")
            .order_by("allowed", "-last_at")[:MAX_SHOWN]
        ),
        questions=list(said.order_by("-at")[:MAX_SHOWN]),
        messages=list(messages.order_by("-at")[:MAX_SHOWN]),
    )


def _counts(actions) -> dict:
    unasked = Q(tier__in=[Tier.LOW, Tier.MEDIUM]) | Q(grant__isnull=False)
    return actions.aggregate(
        calls=Count("pk"),
        unasked=Count("pk", filter=unasked),
        asked=Count("pk", filter=~unasked & ~Q(tier=Tier.FORBIDDEN)),
        denied=Count("pk", filter=Q(status=Status.DENIED)),
        failed=Count("pk", filter=Q(status__in=[Status.FAILED, Status.UNCERTAIN])),
        waiting=Count("pk", filter=Q(status=Status.PENDING)),
    )


def _commands(agent: Agent, caller, inside: dict) -> list[Command]:
    """Return the commands that ended in the span; the log says whose they were."""
    ended = Event.objects.filter(team=agent.team_id, actor_type="agent", actor_id=str(agent.pk), verb="command.ended")
    ids = ended.filter(**inside).order_by("-at").values_list("subject_id", flat=True)[:MAX_SHOWN]
    mine = Workspace.objects.visible_to(caller)
    found = Command.objects.filter(pk__in=list(ids), workspace__in=mine).select_related("workspace__team", "operation")
    return list(found.order_by("-created_at"))
