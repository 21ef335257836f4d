"""Follow open runs: bring up their workspace, start their turns, and say how each turn ended.

`step` compares rows and may be called at any time, twice, or late. What it does is one transaction for each run, so
that a process that is killed leaves either nothing or a step that the next call continues.
"""

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from approvals.actions import asked_by_run
from approvals.agent_runs import turns
from approvals.agent_runs.model_relay import accounts
from approvals.agents.lines import MAX_ID
from approvals.agents.program import MAX_SAID, ProgramResult
from approvals.models import OPEN_RUNS, AgentRun, AgentRunState, AgentSession, AgentTurn, TurnEnd, TurnKind
from dashboard.database import clock
from dashboard.models import Actor, Team
from dashboard.people.access import Caller, caller_of
from dashboard.problems import Problem, conflict, not_allowed
from dashboard.text.bounded_names import bounded
from workspaces import lifecycle, operations
from workspaces.models import Operation, Phase, ReasonCode, Snapshot, State
from workspaces.programs import recordings
from workspaces.secrets.masking import masked

BY = Actor.system("agent runs")
MAX_TRIES = 3  # starts in a row that end without an answer
COMES_UP = (State.CREATING, State.SETTING_UP)
NEEDS_RESUME = (State.STOPPED, State.ARCHIVED)
FIRST_BYTES = 1 << 16  # of the output, in which a program tells its session
BEFORE = "Before the agent"
WITH_ALL = (
    "workspace__environment",
    "workspace__team",
    "team",
    "preparing",
    "started_by",
    "session",
    "agent",
    "definition",
    "trial",
)
STATE_AFTER = {
    TurnEnd.ANSWERED: AgentRunState.DONE,
    TurnEnd.BUDGET: AgentRunState.ASKS,
    TurnEnd.STOPPED: AgentRunState.STOPPED,
    TurnEnd.ENDED: AgentRunState.INTERRUPTED,
    TurnEnd.FAILED: AgentRunState.FAILED,
    TurnEnd.CRASHED: AgentRunState.FAILED,  # after MAX_TRIES
    TurnEnd.LOST: AgentRunState.FAILED,
}
TOLD = (AgentRunState.DONE, AgentRunState.ASKS, AgentRunState.FAILED, AgentRunState.INTERRUPTED)


def open_here():
    """Return the open runs in workspaces of this host."""
    here = Q(workspace__runner=None) | Q(workspace__runner__host=settings.HANDRAIL_HOST_NAME)
    return AgentRun.objects.filter(here, state__in=OPEN_RUNS)


def step() -> int:
    """Follow the open runs in workspaces of this host; return their number."""
    found = list(open_here().order_by("created_at").values_list("pk", flat=True))
    for pk in found:
        _follow(pk)
    return len(found)


@transaction.atomic
def _follow(pk):
    """Bring one open run a step further."""
    Team.objects.take_turn(AgentRun.objects.values_list("team_id", flat=True).get(pk=pk))
    rows = AgentRun.objects.locked().select_related(*WITH_ALL)
    run = rows.filter(pk=pk, state__in=OPEN_RUNS).first()
    if run is None:
        return
    turn = run.turns.select_related("command__operation", "command__workspace").filter(end="").first()
    if turn is None or (turn.command is None and run.state == AgentRunState.WORKING):
        _close(run, turn, TurnEnd.FAILED, "Its command was deleted.")
    elif turn.command is None:
        _begin(run, turn)
    elif operations.is_over(turn.command.operation):
        _end(run, turn)
    else:
        _note_session(run, turn)


# Starting -------------------------------------------------------------------------------------------------------------


def responsible(run: AgentRun) -> Caller:
    """Return the person with whose permissions the run works. Problem 403 if they may not start agents (any more)."""
    person = run.started_by
    if person is None:
        raise not_allowed("The person who started this agent is no longer here.")
    caller = caller_of(person).only_in(run.team_id)
    if not caller.can("start_agents", run.team_id):
        raise not_allowed(f"{person} may no longer start agents in this team.")
    return caller


def _begin(run: AgentRun, turn: AgentTurn):
    if turn.asked_to_end_at:
        _close(run, turn, TurnEnd.STOPPED)
        return
    try:
        with transaction.atomic():
            _start(run, turn)
    except Problem as problem:
        _close(run, turn, TurnEnd.FAILED, problem.detail)


def _start(run: AgentRun, turn: AgentTurn):
    """Take the next step towards the turn's command: resume the workspace, take a snapshot, or submit the command."""
    caller, workspace = responsible(run), run.workspace
    by = Actor(caller.actor.type, caller.actor.id, f"{caller.actor.label} (agent)"[:200])
    if workspace.trashed_at:
        raise conflict(f"{workspace.key} is in the trash.")
    if workspace.state == State.FAILED:
        _create_again(workspace, by)
        return
    if ended := lifecycle.ended_on_request(workspace, turn.created_at):
        _close(run, turn, TurnEnd.ENDED, f"{workspace.key} was {ended} before it began.")
        return
    if workspace.state in COMES_UP or (run.preparing and not operations.is_over(run.preparing)):
        return
    if workspace.state in NEEDS_RESUME:
        _must_have_worked(run)
        run.preparing = lifecycle.resume(workspace, by=by)
    elif run.before is None and turn.number == 1 and not _has_tried_snapshot(run):
        run.preparing = lifecycle.snapshot(workspace, by=by, label=BEFORE)
    else:
        _submit(run, turn, by)
    run.save(update_fields=["preparing", "before", "state", "budget_from", "changed_at"])


def _create_again(workspace, by: Actor):
    """Create a workspace again whose creation a runner cut off that stopped, up to MAX_TRIES times. Problem 409."""
    made = Operation.objects.filter(workspace=workspace, kind="create").order_by("-created_at")[:MAX_TRIES]
    codes = [(each.outcome or {}).get("reason_code") for each in made]
    if len(codes) == MAX_TRIES or codes[:1] != [ReasonCode.RUNNER_STOPPED]:
        raise conflict(f"{workspace.key} has failed: {workspace.reason}")
    lifecycle.retry(workspace, by=by)


def _must_have_worked(run: AgentRun):
    before = run.preparing
    if before and before.kind == "resume" and not (before.outcome or {}).get("ok"):
        raise conflict((before.outcome or {}).get("reason") or f"{run.workspace.key} did not resume.")


def _has_tried_snapshot(run: AgentRun) -> bool:
    """Return whether a snapshot was asked for; note it as the run's first, unless it could not be taken."""
    asked = run.preparing
    if asked is None or asked.kind != "snapshot":
        return False
    if (asked.outcome or {}).get("ok"):
        run.before = Snapshot.objects.filter(workspace=run.workspace, number=asked.outcome["snapshot"]).first()
    return True


def _submit(run: AgentRun, turn: AgentTurn, by: Actor):
    turn.command = turns.submit(run, turn, by=by)
    turn.save(update_fields=["command"])
    run.state, run.preparing, run.changed_at = AgentRunState.WORKING, None, clock.now()
    run.budget_from = run.budget_from or run.changed_at
    turns.record(run, by, "agent_run.turn_started", turn=turn.number, command=str(turn.command_id))


# At work --------------------------------------------------------------------------------------------------------------


def _note_session(run: AgentRun, turn: AgentTurn):
    """Link the run to its session once that is known: the program tells its id, and the hook tells of its messages."""
    if not run.native_id:
        beginning = next(recordings.of(turn.command).pieces(), b"")[:FIRST_BYTES]
        run.native_id = bounded(turns.launcher_of(run).parse_output([beginning]).session, MAX_ID)
        if run.native_id:
            run.save(update_fields=["native_id"])
    _link(run)
    _end_when_minutes_are_over(run)


def _link(run: AgentRun):
    if run.native_id and run.session is None:
        known = {"agent": run.agent_id, "dialect": run.program_name, "native_id": run.native_id}
        run.session = AgentSession.objects.filter(**known).first()
        if run.session:
            run.save(update_fields=["session"])


def _end_when_minutes_are_over(run: AgentRun):
    """Mark the minutes as met: the relay then refuses model calls, which ends the turn. Without it, only notify."""
    if not run.budget_met and accounts.minutes_are_over(run):
        run.budget_met = f"{run.budget_minutes:,} minutes"
        run.untold = "" if turns.uses_relay(run) else AgentRunState.ASKS
        run.save(update_fields=["budget_met", "untold"])
        turns.record(run, BY, "agent_run.budget_met", budget=run.budget_met)


# The end of a turn ----------------------------------------------------------------------------------------------------


def _end(run: AgentRun, turn: AgentTurn):
    launcher, command = turns.launcher_of(run), turn.command
    result = launcher.parse_output(recordings.of(command).pieces())
    if not run.native_id:
        run.native_id = bounded(result.session, MAX_ID)
    _link(run)
    accounts.settle_abandoned(run)
    run.refresh_from_db(fields=["budget_met", "tokens_in", "tokens_out", "tokens_cached", "cost"])
    end, reason = _how(run, turn, result)
    if result.has_no_session and end == TurnEnd.CRASHED:
        run.native_id, run.session = launcher.first_session(), None
    if result.answer:
        run.summary = masked(result.answer.replace("\0", "␀"), run.workspace)[:MAX_SAID]
    _close(run, turn, end, masked(reason, run.workspace))


def _how(run: AgentRun, turn: AgentTurn, result: ProgramResult) -> tuple[str, str]:
    """Return (how the turn ended, why)."""
    command = turn.command
    outcome = command.operation.outcome or {}
    code, reason = outcome.get("reason_code", ""), outcome.get("reason", "")
    if command.cancelled_at or turn.asked_to_end_at:
        return TurnEnd.STOPPED, ""  # also if its program still said something, which is kept as the summary
    if result.is_answered and not result.error:
        return TurnEnd.ANSWERED, ""
    # Such a program may exit by itself, on the signal that it gets first.
    if ended := lifecycle.ended_on_request(run.workspace, turn.created_at, command.ended_at):
        return TurnEnd.ENDED, f"{run.workspace.key} was {ended}."
    if command.operation.phase == Phase.UNCERTAIN or code in (ReasonCode.LOST, ReasonCode.FORGOTTEN):
        return TurnEnd.LOST, reason
    if code in (ReasonCode.KILLED, ReasonCode.STATE, ReasonCode.RUNNER_STOPPED):
        return TurnEnd.ENDED, reason
    if run.budget_met:
        return TurnEnd.BUDGET, f"Its budget is met: {run.budget_met}."
    if result.error:
        return TurnEnd.FAILED, result.error[:2000]
    if command.started_at is None:
        return TurnEnd.FAILED, reason or "Its program did not start."
    return TurnEnd.CRASHED, ": ".join(filter(None, (outcome.get("words") or reason, result.last_line)))


def _close(run: AgentRun, turn: AgentTurn | None, end: str, reason: str = ""):
    """End the turn, then either add the next one or let a person decide."""
    now = clock.now()
    if turn is not None:
        turn.end, turn.reason, turn.ended_at = end, reason, now
        turn.save(update_fields=["end", "reason", "ended_at"])
        asked_by_run.cancel(run, BY, f"The agent's turn ended: {reason or turn.get_end_display()}"[:1000])
        asked_by_run.leave_unclear(run, BY)
    run.tries = 0 if end == TurnEnd.ANSWERED else run.tries + 1
    run.reason, run.changed_at, run.preparing = reason, now, None
    if _goes_on(run, turn, end):
        run.state = AgentRunState.STARTING
    else:
        run.state = STATE_AFTER[end]
        run.untold = run.state if run.state in TOLD and not run.is_trial else ""
    run.save()
    data = {"end": end, "reason": reason[:500], "turn": turn and turn.number}
    turns.record(run, BY, "agent_run.turn_ended", **data)


def _goes_on(run: AgentRun, turn: AgentTurn | None, end: str) -> bool:
    """Add the next turn, for people's messages or to continue one that broke off; return whether there is one.

    Not in a workspace that somebody has ended since, nor in a stopped team: people's words wait for *Continue*.
    """
    if run.team.stopped_at or (turn is not None and lifecycle.ended_on_request(run.workspace, turn.created_at)):
        return False
    if turn is not None and turn.next_prompt and end in (TurnEnd.ANSWERED, TurnEnd.STOPPED):
        turns.add(run, TurnKind.MESSAGE, turn.next_prompt)
        return True
    if end in (TurnEnd.ANSWERED, TurnEnd.STOPPED) and (messages := turns.undelivered(run)):
        turns.deliver(run, messages)
        return True
    if end in (TurnEnd.CRASHED, TurnEnd.LOST) and run.tries < MAX_TRIES:
        turns.add(run, TurnKind.GO_ON, turns.GO_ON)
        return True
    return False
