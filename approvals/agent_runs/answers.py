"""What people answer to a run: messages, interrupts, more budget, and whether its work is accepted."""

from datetime import timedelta
from decimal import Decimal

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from approvals.actions import asked_by_run
from approvals.agent_runs import requests, turns
from approvals.agent_runs.model_relay import accounts
from approvals.models import ActionEndCode, AgentRun, AgentRunState, AgentTurn, TurnKind
from approvals.sessions import messages
from dashboard.database import clock
from dashboard.models import Team
from dashboard.people.access import Caller
from dashboard.problems import conflict, invalid, not_allowed
from workspaces import lifecycle, operations
from workspaces.models import Operation
from workspaces.services import commands, git_export, pull_requests


def _must_manage(run: AgentRun, caller: Caller):
    if not caller.is_person or not caller.can("start_agents", run.team_id):
        raise not_allowed("Only a lead or admin can answer for this run.")


def _locked(run: AgentRun) -> AgentRun:
    Team.objects.take_turn(run.team_id)
    rows = AgentRun.objects.locked().select_related("workspace__environment", "session", "agent")
    return rows.get(pk=run.pk)


def send_text(run: AgentRun, text: str, *, caller: Caller):
    """Tell the agent something: with its next call while it works, as its next turn otherwise. Problem 403, 409, 422.

    What no call delivers before the turn ends is the next turn.
    """
    _must_manage(run, caller)
    with transaction.atomic():
        found = _locked(run)
        if found.is_closed:
            raise conflict("This run is over: its work was accepted or discarded.")
        messages.send(found.agent, session=found.native_id, caller=caller, text=text)
        turns.record(found, caller.actor, "agent_run.told")
        if not found.is_open:
            turns.deliver(found, turns.undelivered(found))
            _reopen(found, caller)
    transaction.on_commit(operations.wake_runner)


def interrupt(run: AgentRun, text: str, *, caller: Caller):
    """End the turn that runs, and go on with this message. Problem 403, 409, 422."""
    _must_manage(run, caller)
    if not text.strip() or len(text) > messages.MAX_TEXT:
        raise invalid(f"Give a message of at most {messages.MAX_TEXT:,} characters.", field="text")
    with transaction.atomic():
        found = _locked(run)
        if not found.is_open:
            raise conflict("It does not work now. Send it a message instead.")
        said = messages.without_secrets(text, found.agent, found.native_id)
        _end_turn(found, caller, f"{caller.actor.label} interrupted the agent: “{said}”", next_prompt=said)
        turns.record(found, caller.actor, "agent_run.interrupted")


def stop(run: AgentRun, *, caller: Caller):
    """End the turn that runs, and start no other one: its session and files stay. Problem 403, 409."""
    _must_manage(run, caller)
    with transaction.atomic():
        found = _locked(run)
        if not found.is_open:
            raise conflict("It does not work now.")
        turns.take(turns.undelivered(found))
        _end_turn(found, caller, f"{caller.actor.label} stopped the agent.")
        turns.record(found, caller.actor, "agent_run.stopped")
    transaction.on_commit(operations.wake_runner)


def _end_turn(run: AgentRun, caller: Caller, note: str, next_prompt: str = ""):
    """End the turn that runs, and cancel what it asked: `note` is the reason."""
    turn = run.turns.select_related("command__operation", "command__workspace").filter(end="").first()
    if turn is None:
        return
    AgentTurn.objects.filter(pk=turn.pk).update(asked_to_end_at=clock.now(), next_prompt=next_prompt)
    asked_by_run.cancel(run, caller.actor, note, code=ActionEndCode.INTERRUPTED)
    if turn.command:
        commands.cancel_command(turn.command, by=caller.actor)


def go_on(run: AgentRun, *, caller: Caller):
    """Go on in the same session after a stop, a failure or the end of the workspace. Problem 403, 409."""
    _must_manage(run, caller)
    with transaction.atomic():
        found = _locked(run)
        if found.state not in (AgentRunState.STOPPED, AgentRunState.INTERRUPTED, AgentRunState.FAILED):
            raise conflict("It has nothing to go on with: it works, or waits for an answer.")
        _continue(found, caller)
        _reopen(found, caller)
        turns.record(found, caller.actor, "agent_run.went_on")
    transaction.on_commit(operations.wake_runner)


def _continue(run: AgentRun, caller: Caller):
    """Add the next turn: with the words that wait for it, if there are any."""
    last = run.turns.order_by("number").last()
    if last and last.next_prompt:
        turns.add(run, TurnKind.MESSAGE, last.next_prompt, by=caller.user)
    elif messages_left := turns.undelivered(run):
        turns.deliver(run, messages_left)
    else:
        turns.add(run, TurnKind.GO_ON, turns.GO_ON, by=caller.user)


def extend_budget(run: AgentRun, wish: dict, *, caller: Caller):
    """Set the budgets that `wish` names, and go on if the run asked for that.

    If a limit of the team stopped the run, it goes on with an empty `wish` once that limit is lifted or raised.

    `budget_tokens` and `budget_cost` are totals of the run; `budget_minutes` count from now on, `until` gives them as
    a time. Problem 403, 409, 422.
    """
    _must_manage(run, caller)
    with transaction.atomic():
        found = _locked(run)
        if found.is_closed:
            raise conflict("This run is over: its work was accepted or discarded.")
        if found.met_limit and not any(wish.values()):
            if met := accounts.met_limit_of(found.team_id):
                words = f"{accounts.limit_in_words(met).capitalize()} is still met."
                raise conflict(f"{words} A lead can lift it on the Measures page.", code="cap_met")
        else:
            _take(found, wish)
        asked = found.state == AgentRunState.ASKS
        found.budget_met = found.met_limit = ""
        found.budget_from = found.changed_at = clock.now()
        budgets = ["budget_minutes", "budget_tokens", "budget_cost", "budget_met", "budget_from"]
        found.save(update_fields=[*budgets, "met_limit", "changed_at"])
        data = {name: str(wish[name]) for name in wish if wish[name]}
        turns.record(found, caller.actor, "agent_run.budget_extended", **data)
        if asked:
            turns.add(found, TurnKind.GO_ON, turns.MORE_BUDGET, by=caller.user)
            _reopen(found, caller)
    transaction.on_commit(operations.wake_runner)


def _take(run: AgentRun, wish: dict):
    given = {name: wish.get(name) or None for name in ("budget_minutes", "budget_tokens", "budget_cost")}
    if until := wish.get("until"):
        left = (until - clock.now()) / timedelta(minutes=1)
        if left < 1:
            raise invalid("The time must be in the future.", field="until")
        given["budget_minutes"] = int(left)
    if not any(given.values()):
        raise invalid("Give more minutes, tokens or money.", field="budget_minutes")
    environment, launcher = run.workspace.environment, turns.launcher_of(run)
    found = requests.check_budgets(environment, launcher, run.team, given)
    used = {"budget_tokens": run.tokens_in + run.tokens_out, "budget_cost": run.cost}
    for name, value in found.items():
        if value is None:
            continue
        if name in used and Decimal(value) <= used[name]:
            raise invalid(f"The run has used {used[name]:,} already: give more than that in all.", field=name)
        setattr(run, name, value)


def _reopen(run: AgentRun, caller: Caller):
    run.state, run.reason, run.untold, run.tries = AgentRunState.STARTING, "", "", 0
    run.started_by, run.changed_at = caller.user, clock.now()
    if not run.budget_met:
        run.budget_from = None  # the minutes count from the start of the turn
    try:
        with transaction.atomic():
            run.save()
    except IntegrityError:
        raise conflict(f"Another agent works in {run.workspace.key}. Wait until it has ended, or stop it.") from None


def accept(run: AgentRun, wish: dict | None = None, *, caller: Caller) -> Operation | None:
    """Record that a person accepts the work, and push its commits or open a pull request.

    `wish`: {branch?, pull_request?, sha?, seen?}, the last two as for `git_export.push`.

    A pull request without a branch gets one named after the workspace. Problem 403, 409, 422; then nothing is recorded.
    """
    branch, asks = (wish or {}).get("branch") or "", bool((wish or {}).get("pull_request"))
    shown = {name: (wish or {}).get(name) or "" for name in ("sha", "seen")}
    wanted = {"branch": branch or branch_for(run), **shown}
    prepared = pull_requests.prepare(run.workspace, wanted) if asks and not (run.is_open or run.is_closed) else None
    with Team.objects.turn(run.team_id):
        if asks or branch:
            requests.refuse_while_another_works(run)  # its half-done work would be pushed too
        _close(run, AgentRunState.ACCEPTED, "agent_run.accepted", caller)
        if prepared:
            return pull_requests.submit(run.workspace, prepared, by=caller.actor)
        return git_export.push(run.workspace, branch, by=caller.actor, **shown) if branch else None


def branch_for(run: AgentRun) -> str:
    return f"handrail/{run.workspace.key}"


def discard(run: AgentRun, wish: dict | None = None, *, caller: Caller) -> Operation | None:
    """Restore the files from before the run, after a snapshot of the current ones. Problem 403, 409.

    {later: true}: also if that takes away what later runs have done, which are discarded with it.
    """
    with Team.objects.turn(run.team_id):
        requests.refuse_while_another_works(run)
        _close(run, AgentRunState.DISCARDED, "agent_run.discarded", caller)
        later = list(later_runs(run))
        if later and not (wish or {}).get("later"):
            named = ", ".join(f"“{each}” ({each.get_state_display()})" for each in later[:5])
            words = f"{len(later)} later runs worked" if len(later) > 1 else "A later run worked"
            raise conflict(f"{words} on these files: {named}. Discarding takes that work away too.", code="later_runs")
        for each in later:
            _close(each, AgentRunState.DISCARDED, "agent_run.discarded", caller, again=True)
        if run.before is None:
            raise conflict("There is no snapshot from before this run, so it can't be undone as a whole.")
        return lifecycle.restore(run.workspace, run.before.number, by=caller.actor)


def later_runs(run: AgentRun) -> QuerySet[AgentRun]:
    """Return the runs that worked on the same files after this one and were not discarded, oldest first."""
    later = AgentRun.objects.filter(workspace=run.workspace_id, created_at__gt=run.created_at)
    return (
        later.exclude(state=AgentRunState.DISCARDED)
        .filter(turns__command__isnull=False)
        .distinct()
        .order_by("created_at")
    )


@transaction.atomic
def _close(run: AgentRun, state: str, verb: str, caller: Caller, *, again: bool = False):
    """Close the run; `again`: also one that was accepted."""
    _must_manage(run, caller)
    found = _locked(run)
    if found.is_open:
        raise conflict("It still works. Stop it first.")
    if found.is_closed and not again:
        raise conflict(f"This run was {found.get_state_display().lower()} already.")
    found.state, found.untold, found.changed_at = state, "", clock.now()
    found.save(update_fields=["state", "untold", "changed_at"])
    turns.record(found, caller.actor, verb)
