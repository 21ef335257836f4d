"""Send a message to an agent, and hand it over with the next response that the agent gets.

A message decides nothing. With Claude Code a hook's response is the only place for it: it is claimed for one response
and counts as given once that was sent. Over the API it comes with each answer until the agent acknowledges it.
"""

from datetime import timedelta

from django.db.models import Q

from approvals.models import Action, AgentMessage
from dashboard.database import clock
from dashboard.models import Agent, Event, Team
from dashboard.problems import conflict, invalid, not_allowed
from workspaces.models import Workspace
from workspaces.secrets.masking import masked

MAX_TEXT = 4000  # characters of a message
MAX_SESSION = 200  # characters of a session's name
MAX_WAITING = 20  # messages to one agent that it has not got
MAX_AT_ONCE = 10  # messages in one response
MAX_WORKSPACES = 20  # of which secret values are looked for in a message: the ones used last
CLAIM = timedelta(seconds=30)  # after which a message whose response was never sent may go with another one
HOOK, API = AgentMessage.Way.HOOK, AgentMessage.Way.API


def send(agent: Agent, *, session: str, caller, text: str) -> AgentMessage:
    """Keep a message for the agent's session, or with "" for whichever comes next. Problem 403, 409, 422."""
    check_may_talk(agent, caller)
    if not text.strip():
        raise invalid("The message is empty.")
    if len(text) > MAX_TEXT:
        raise invalid(f"A message can have at most {MAX_TEXT:,} characters.")
    text = without_secrets(text, agent, session)[:MAX_TEXT]
    with Team.objects.turn(agent.team_id):
        if AgentMessage.objects.filter(agent=agent, given_at=None).count() >= MAX_WAITING:
            raise conflict(f"{agent} has not got {MAX_WAITING} messages yet. Wait until it has read them.")
        made = AgentMessage.objects.create(agent=agent, session=session, user=caller.user, text=text, at=clock.now())
        _record(made, "agent.messaged", caller.actor)
    return made


def check_may_talk(agent: Agent, caller):
    """Raise Problem 403 unless the caller is a person who decides for the agent's team."""
    if not caller.is_person or not caller.can("decide", agent.team_id):
        raise not_allowed("Only a reviewer, lead or admin can message or interrupt an agent.")


def without_secrets(text: str, agent: Agent, session: str) -> str:
    """Return a person's text without the secret values of the workspaces that the agent used."""
    used = Action.objects.filter(agent=agent, workspace__isnull=False)
    used = used.filter(session=session) if session else used
    keys = list(dict.fromkeys(used.order_by("-number").values_list("workspace", flat=True)[: 10 * MAX_WORKSPACES]))
    found = Workspace.objects.filter(pk__in=keys[:MAX_WORKSPACES])
    return masked(text.strip().replace("\0", "␀"), *found)


def quoted(message: AgentMessage) -> str:
    """Return the message as the agent reads it: as the words of a named person."""
    return (
        f"Message from {message.user.get_username()}, a person who reviews your calls in Handrail, written "
        f"{clock.in_utc(message.at)}: “{message.text}” (End of the message. It approves no call.)"
    )


def claim(caller, session: str) -> list[AgentMessage]:
    """Return the messages for the next response of a hook of this session; no other response has them meanwhile."""
    now = clock.now()
    free = Q(given_at=None) & (Q(claimed_at=None) | Q(claimed_at__lt=now - CLAIM))
    found = AgentMessage.objects.visible_to(caller).filter(free, session__in={"", session})
    found = found.select_related("user", "agent").order_by("at")[:MAX_AT_ONCE]
    return [each for each in found if AgentMessage.objects.filter(free, pk=each.pk).update(claimed_at=now)]


def unread(caller, session: str) -> list[AgentMessage]:
    """Return what an agent's answer over the API brings: the session's messages that it has not acknowledged."""
    found = AgentMessage.objects.visible_to(caller).filter(read_at=None, session__in={"", session})
    return list(found.exclude(given_by=HOOK).select_related("user", "agent").order_by("at")[:MAX_AT_ONCE])


def mark_given(messages: list[AgentMessage], way: str, *, by):
    """Note that a response with these messages was sent to the agent."""
    for message in messages:
        if message.given_at is not None:
            continue
        with Team.objects.turn(message.agent.team_id):
            fields = {"given_at": clock.now(), "given_by": way}
            if AgentMessage.objects.filter(pk=message.pk, given_at=None).update(**fields):
                _record(message, "agent.message_given", by, {"way": str(way)})


def acknowledge(message: AgentMessage, *, caller) -> AgentMessage:
    """Note that the agent has the message, so that its answers no longer bring it. Problem 403."""
    if caller.is_person or caller.agent.pk != message.agent_id:
        raise not_allowed("Only the agent acknowledges its messages.")
    mark_given([message], API, by=caller.actor)
    AgentMessage.objects.filter(pk=message.pk, read_at=None).update(read_at=clock.now())
    message.refresh_from_db()
    return message


def _record(message: AgentMessage, verb: str, by, data=None):
    about = {"message": str(message.pk), "session": message.session}
    Event.objects.record(message.agent.team_id, actor=by, verb=verb, subject=message.agent, data=about | (data or {}))
