"""Events that the agent only reports: the end of a call, of a turn or of a session."""

from functools import partial

from approvals.actions import gate, questions_to_agents
from approvals.agents.dialect import Dialect, Reply
from approvals.agents.hook_events import After, Ended, TurnEnded, Turning
from approvals.evaluation.judge import content
from approvals.hooks import after_call, opened_hosts, sessions
from approvals.hooks.before_call import call_of
from approvals.hooks.connection import connection_of
from approvals.hooks.tool_output import result_of
from approvals.models import Action, Status
from dashboard.text import strict_json

NO_EXIT_STATUS = "the agent did not report its exit status"


def call_ended(request, heard: After, dialect: Dialect, caller) -> Reply:
    """Record the end of a call that was allowed here; tell the agent which accesses its box refused."""
    action = _let_through(request, heard, dialect, caller)
    if action is None:
        return Reply()
    opened_hosts.ended(action)
    details = result_of(heard, action.workspace)
    blocked, ports = after_call.seen(action, heard, details)
    differs = dialect.reports_what_ran and after_call.ran_differently(action, heard, by=caller.actor)
    note = after_call.ALARM if differs else ""
    # What was allowed did not run if something else did, however that ended.
    failed = heard.failed or differs
    outcome = Status.FAILED if failed else Status.UNCERTAIN if heard.is_unclear else Status.SUCCEEDED
    gate.report(action, outcome.value, caller=caller, details=details, blocked=blocked, note=note or _note(heard))
    told = after_call.worth_telling(blocked, failed=heard.failed)
    return Reply(context=after_call.for_the_agent(told, ports))


def _note(heard: After) -> str:
    return f"It ended, and {NO_EXIT_STATUS}." if heard.is_unclear else ""


def _let_through(request, heard: After, dialect: Dialect, caller) -> Action | None:
    found = sessions.let_through(heard.session, caller)
    if heard.call_id:
        return found.filter(call_id=heard.call_id).first()
    asked = call_of(request, heard, dialect, caller).hash_for(caller.agent)
    return found.filter(call_hash=asked).first() or _edited_to(heard, found)


def _edited_to(heard: After, found) -> Action | None:
    """Return the call that a person edited to this one: without an id, only its tool and arguments tell."""
    edited = found.filter(tool=heard.tool, revision__gt=1)
    return next((action for action in edited if strict_json.same(content(action)["arguments"], heard.arguments)), None)


def turn_or_session_ended(request, heard: Turning, caller) -> Reply:
    """Mark calls that a turn or session left running as unclear, and remind the agent once of unused approvals."""
    if isinstance(heard, Ended):
        sessions.leave_unclear(heard.session, caller, sessions.SESSION_OVER)
    if not isinstance(heard, TurnEnded):
        return Reply()
    if heard.said is not None:
        questions_to_agents.answer_from_last_message(heard.session, heard.said, caller=caller)
    if heard.is_idle:  # what runs in the background keeps running
        sessions.leave_unclear(heard.session, caller, sessions.TURN_OVER, but_repeats=True)
    # Never keep it from stopping twice, or the agent could loop.
    if heard.was_kept_going:
        return Reply()
    told, actions = sessions.reminder(heard.session, caller)
    for action in actions:
        connection_of(request).when_sent(partial(gate.mark_heard, action))
    return Reply(reason=told)
