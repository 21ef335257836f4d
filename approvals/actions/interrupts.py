"""Interrupt an agent's session, or the whole agent: the narrow form of the emergency stop.

Its requests and unused approvals are cancelled, its commands in workspaces are stopped, and its calls are refused until
a person lifts it or its time is over. A program that the agent itself runs cannot be stopped from here.
"""

from datetime import timedelta

from approvals.actions.transitions import LIVE, withdraw
from approvals.evaluation.calls import GATE
from approvals.models import Action, ActionEndCode, AgentSession, Interrupt, Status
from approvals.sessions.messages import check_may_talk, without_secrets
from dashboard.database import clock
from dashboard.models import Agent, Event, Team
from dashboard.problems import conflict, invalid
from workspaces.models import Command, Operation
from workspaces.services import commands

CODE = "interrupted"  # of the Problem
MAX_REASON = 1000  # characters
MAX_MINUTES = 8 * 60
DEFAULT_MINUTES = 60
MAX_NAMED = 50  # calls and commands that the record of an interrupt names


def interrupt(agent: Agent, *, session: str, caller, reason: str = "", minutes: int = DEFAULT_MINUTES) -> Interrupt:
    """Interrupt the session, or with "" all of the agent's. Problem 403, 409 if it is interrupted already, 422."""
    check_may_talk(agent, caller)
    if len(reason) > MAX_REASON:
        raise invalid(f"A reason can have at most {MAX_REASON:,} characters.")
    if not 1 <= minutes <= MAX_MINUTES:
        raise invalid(f"minutes must be from 1 to {MAX_MINUTES}.")
    now, reason = clock.now(), without_secrets(reason, agent, session)[:MAX_REASON]
    with Team.objects.turn(agent.team_id):  # a new action takes it too, so each is cancelled here or refused
        if Interrupt.objects.active(now).filter(agent=agent, session=session).exists():
            raise conflict(f"{agent} is interrupted already.")
        until = now + timedelta(minutes=minutes)
        made = Interrupt.objects.create(
            agent=agent, session=session, user=caller.user, reason=reason, at=now, until=until
        )
        made.done = _end_calls(made, caller.actor)
        made.save(update_fields=["done"])
        counts = {name: len(made.done[name]) for name in ("denied", "running")}
        _record(made, "agent.interrupted", caller.actor, counts)
    made.done["commands"] = _stop_commands(agent, session, caller.actor)
    made.save(update_fields=["done"])
    return made


def _end_calls(made: Interrupt, by) -> dict[str, list]:
    live, running = _open_actions(made.agent, made.session)
    note = agent_text(made)
    cancelled = [each for each in live if withdraw(each, by, note, code=ActionEndCode.INTERRUPTED)]
    return {
        "denied": [_named(action) for action in cancelled[:MAX_NAMED]],
        "running": [_named(action) for action in running[:MAX_NAMED]],
        "commands": [],
    }


def _stop_commands(agent: Agent, session: str, by) -> list[dict]:
    """Ask the runner to stop the commands; return [{id, key, shown}] of those that it was asked for."""
    stopped = list(open_commands(agent, session))
    for command in stopped:
        commands.cancel_command(command, by=by)
    named = [(str(command.pk), command.workspace.key, command.shown[:120]) for command in stopped[:MAX_NAMED]]
    return [dict(zip(("id", "key", "shown"), each, strict=True)) for each in named]


def _named(action: Action) -> dict:
    return {"id": str(action.pk), "number": action.number, "title": action.title}


def preview(agent: Agent, session: str) -> dict:
    """Return what an interrupt would end now, and what it cannot end: {denied, running, commands}."""
    live, running = _open_actions(agent, session)
    return {"denied": live, "running": running, "commands": open_commands(agent, session)}


def _open_actions(agent: Agent, session: str):
    """Return (requests and unused approvals, calls that the agent itself runs)."""
    actions = Action.objects.filter(agent=agent).order_by("number")
    actions = actions.filter(session=session) if session else actions
    running = actions.filter(status=Status.RUNNING, mode=GATE, operation=None)
    return actions.filter(LIVE), running


def open_commands(agent: Agent, session: str):
    """Return the commands in workspaces that an interrupt stops: the agent's; for a session those of its actions."""
    found = Command.objects.filter(operation__in=Operation.objects.open(), service="")
    if session:
        found = found.filter(operation__in=Action.objects.filter(agent=agent, session=session).values("operation"))
    else:
        found = found.filter(by__type="agent", by__id=str(agent.pk))
    return found.select_related("operation", "workspace__team").order_by("pk")


def lift(made: Interrupt, *, caller):
    """Let the agent go on; what was cancelled or stopped stays so. Problem 403, 409 if it is lifted or over."""
    check_may_talk(made.agent, caller)
    now = clock.now()
    with Team.objects.turn(made.agent.team_id):
        mine = Interrupt.objects.active(now).filter(pk=made.pk)
        if not mine.update(lifted_at=now, lifted_by=caller.user):
            raise conflict("It is not interrupted now.")
        _record(made, "agent.go_on", caller.actor)


def in_force_for(agent: Agent, session: str) -> Interrupt | None:
    """Return the interrupt that denies the calls of this session; None if there is none."""
    found = Interrupt.objects.holding(agent.pk, session, clock.now())
    return found.select_related("user", "agent").order_by("at").first()


def refuse_verb(caller, key: str, session: str = ""):
    """Raise Problem 409 while the session or its agent is interrupted.

    What a session is called is the agent's own word. So the interrupt of one session also holds for what names none, or
    one that was first heard of after it, in the workspaces where the interrupted session asked for something, and
    everywhere if it asked in none. `key` is that of the request's workspace, "" if it names none.
    """
    found = Interrupt.objects.active(clock.now()).filter(agent=caller.agent)
    for made in found.select_related("user", "agent").order_by("at"):
        is_named = made.session in ("", session)
        if is_named or (not _was_known(made, session) and _may_come_from(made, caller, key)):
            raise conflict(agent_text(made), code=CODE)


def _was_known(made: Interrupt, session: str) -> bool:
    """Return whether the session was heard of before this interrupt."""
    if not session:
        return False
    asked = Action.objects.filter(agent=made.agent, session=session, created_at__lt=made.at)
    began = AgentSession.objects.filter(agent=made.agent, native_id=session, started_at__lt=made.at)
    return asked.exists() or began.exists()


def _may_come_from(made: Interrupt, caller, key: str) -> bool:
    asked = Action.objects.filter(agent=made.agent, session=made.session).exclude(workspace=None)
    places = dict(asked.values_list("workspace", "workspace__key"))
    if not places or not (key or caller.workspace_id):
        return True
    return caller.workspace_id in places or key in places.values()


def agent_text(made: Interrupt) -> str:
    """Return what the agent hears."""
    said = f": “{made.reason}”" if made.reason else "."
    return (
        f"{made.user.get_username()} asks you to stop and wait{said} Do not retry and do not work around this. "
        f"Calls are refused until a person lets you go on, or until {clock.in_utc(made.until)}."
    )


def mark_heard(agent: Agent, session: str, *, by):
    """Note that a response with the interrupt was sent to the agent."""
    found = Interrupt.objects.holding(agent.pk, session, clock.now()).filter(heard_at=None)
    for made in found.select_related("agent"):
        with Team.objects.turn(made.agent.team_id):
            if Interrupt.objects.filter(pk=made.pk, heard_at=None).update(heard_at=clock.now()):
                _record(made, "agent.interrupt_heard", by)


def _record(made: Interrupt, verb: str, by, data=None):
    about = {"interrupt": str(made.pk), "session": made.session}
    Event.objects.record(made.agent.team_id, actor=by, verb=verb, subject=made.agent, data=about | (data or {}))
