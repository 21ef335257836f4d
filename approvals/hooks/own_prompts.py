"""A call that the agent asks about a second time, at its terminal or its client, after the gate has allowed it.

A person who approved exactly this call on the Desk is not asked a second time. What the policy allowed by itself stays
with the agent's own question: its user wants to be asked.
"""

from approvals import gate
from approvals.agents.acp import BY_CLIENT
from approvals.agents.dialect import ALLOW, Reply
from approvals.agents.heard import Before, OwnPrompt
from approvals.evaluation import content
from approvals.hooks import held_calls, sessions
from approvals.models import Action, Status
from approvals.transitions import final_decision
from dashboard import strict_json

SAID = "{} was approved on the Desk."


def answer(heard: OwnPrompt, caller) -> Reply:
    gate.refuse_when_stopped(caller.agent.team)
    for action in sessions.let_through(heard.session, caller).filter(tool=heard.tool, status=Status.RUNNING):
        if final_decision(action) is not None and _is_call(action, heard):
            return Reply(ALLOW, SAID.format(action))
    return Reply()


def _is_call(action: Action, heard: OwnPrompt) -> bool:
    allowed = content(action)["arguments"]
    if strict_json.same(allowed, heard.arguments):
        return True
    if action.envelope is None or not isinstance(heard.arguments, dict):
        return False
    ran = str(heard.arguments.get("command"))  # in a held folder, the command that runs the original in the box
    return held_calls.ticket_in(ran, str(allowed.get("command"))) is not None


def let_through(heard: Before, caller) -> Action | None:
    """Return the action of this call that the agent's own hook has let through, None if there is none."""
    gate.refuse_when_stopped(caller.agent.team)
    running = sessions.let_through(heard.session, caller).filter(status=Status.RUNNING)
    return running.filter(call_id=heard.call_id.removeprefix(BY_CLIENT)).exclude(call_id="").first()
