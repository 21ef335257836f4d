"""Answer the agent's own prompts about calls that the gate has allowed already.

If a person approved exactly this call on the Desk, the prompt is answered with yes. If the policy allowed it without
asking anybody, the agent asks its user, whose settings require that.
"""

from approvals.actions import gate
from approvals.actions.transitions import final_decision
from approvals.agents.acp.dialect import CLIENT_PREFIX
from approvals.agents.dialect import ALLOW, Reply
from approvals.agents.hook_events import Before, OwnPrompt
from approvals.evaluation.judge import content
from approvals.hooks import held_calls, sessions
from approvals.models import Action, Status
from dashboard.text import strict_json


def answer(heard: OwnPrompt, caller) -> Reply:
    """Return an approval if a person approved the call, else no decision. Problem 409 while everything is stopped."""
    gate.refuse_when_stopped(caller.agent.team)
    for action in sessions.let_through(heard.session, caller).filter(tool=heard.tool, status=Status.RUNNING):
        if final_decision(action) is not None and _is_same_call(action, heard):
            return Reply(ALLOW, f"{action} was approved on the Desk.")
    return Reply()


def _is_same_call(action: Action, heard: OwnPrompt) -> bool:
    """Return whether the agent's prompt is about the call that was allowed, also as it runs in a box."""
    allowed = content(action)["arguments"]
    if strict_json.same(allowed, heard.arguments):
        return True
    if action.envelope is None or not isinstance(heard.arguments, dict):
        return False
    ran = str(heard.arguments.get("command"))  # in a held folder: the command that runs the approved one in the box
    return held_calls.ticket_in(ran, str(allowed.get("command"))) is not None


def allowed_at_hook(heard: Before, caller) -> Action | None:
    """Return the running action that the agent's own hook asked for with the same call id, None if there is none."""
    gate.refuse_when_stopped(caller.agent.team)
    running = sessions.let_through(heard.session, caller).filter(status=Status.RUNNING)
    return running.filter(call_id=heard.call_id.removeprefix(CLIENT_PREFIX)).exclude(call_id="").first()
