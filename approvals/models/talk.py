"""What people say to an agent unasked: messages, and interrupts."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q

from dashboard.models import Agent


class AgentMessageQuerySet(models.QuerySet):
    def visible_to(self, who):
        """Return the messages of a person's teams; an agent's own, of its token's workspace if it has one."""
        if who.is_person:
            return self.filter(agent__team_id__in=who.team_ids)
        own = self.filter(agent=who.agent.pk)
        if who.workspace_id is None:
            return own
        here = who.agent.actions.filter(workspace=who.workspace_id).exclude(session="").values("session")
        return own.filter(Q(session="") | Q(session__in=here))


class AgentMessage(models.Model):
    """A person's message to an agent. It decides nothing: the policy never reads it."""

    class Way(models.TextChoices):
        HOOK = "hook", "hook"
        API = "api", "API"
        TURN = "turn", "the next turn of a run"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, models.CASCADE, related_name="+")
    session = models.CharField(max_length=200, blank=True)  # empty: whichever session of the agent comes next
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    text = models.TextField()  # without secret values
    at = models.DateTimeField()
    claimed_at = models.DateTimeField(null=True, blank=True)  # a hook's response with it is under way since
    given_at = models.DateTimeField(null=True, blank=True)  # when a response with it was sent
    given_by = models.CharField(max_length=4, choices=Way, blank=True)
    read_at = models.DateTimeField(null=True, blank=True)  # when the agent said over the API that it has it

    objects = AgentMessageQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["agent", "at"], name="message_of_agent")]

    def __str__(self):
        return f"a message to {self.agent_id}"


class InterruptQuerySet(models.QuerySet):
    def visible_to(self, who):
        return self.filter(agent__team_id__in=who.team_ids)

    def active(self, now):
        return self.filter(lifted_at=None, until__gt=now)

    def holding(self, agent_id, session: str, now):
        """Return the active ones that deny the calls of this session."""
        return self.active(now).filter(agent=agent_id, session__in={"", session})


class Interrupt(models.Model):
    """A person's order to stop: calls of the session, or of the whole agent, are denied until it is lifted or over."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, models.CASCADE, related_name="+")
    session = models.CharField(max_length=200, blank=True)  # empty: all sessions of the agent
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    reason = models.TextField(blank=True)  # without secret values
    at = models.DateTimeField()
    until = models.DateTimeField()
    heard_at = models.DateTimeField(null=True, blank=True)  # when a response with it was first sent to the agent
    lifted_at = models.DateTimeField(null=True, blank=True)
    lifted_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, blank=True, related_name="+")
    # {denied, running: [{id, number, title}], commands: [{id, key, shown}]}: what it found at its beginning
    done = models.JSONField(default=dict)

    objects = InterruptQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["agent", "until"], name="interrupt_of_agent")]

    def __str__(self):
        return f"an interrupt of {self.agent_id}"
