"""Uses of a credential beyond its leash, as actions: the approval is the injection, once.

The egress proxy of the runner holds the request open meanwhile (workspaces/runner/leashes.py).
"""

from asgiref.sync import sync_to_async

from approvals.actions import gate
from approvals.actions.expiry import end_if_due
from approvals.actions.transitions import final_decision
from approvals.evaluation.calls import Call
from approvals.evaluation.own_verbs import CREDENTIAL
from approvals.models import Action, Status
from dashboard.people.access import Caller
from dashboard.problems import Problem
from workspaces.services import run_tokens


def ask(workspace, wish: dict) -> tuple[str, str]:
    """Submit a use as an action; return its id and digest. Problem.

    `wish` is {credential, host, method, path, has_query, body_bytes, body_sha256}.
    """
    call = Call(CREDENTIAL, wish, workspace=workspace, own_verb=True)
    action, _ = gate.submit(call, caller=_caller(run_tokens.agent_of(workspace)))
    return str(action.pk), action.digest


def answer(pk: str) -> str | None:
    """Return "" for an approval that waits to be used, None while nobody has answered, else why the answer is no."""
    action = end_if_due(Action.objects.select_related("agent").get(pk=pk))
    if action.status in (Status.PENDING, Status.APPROVED):
        return None if action.status == Status.PENDING else ""
    decision = final_decision(action)
    said = f" {decision.user.get_username()}: {decision.comment}" if decision and decision.comment else ""
    return f"A-{action.number} was {action.status}, so the credential was not put in.{said}"


async def use_once(pk: str, digest: str):
    """Use the approval of what was asked up. Problem 409 if it is no longer good, or a person edited the call."""
    action = await Action.objects.select_related("agent").aget(pk=pk)
    caller = _caller(action.agent)
    used = await gate.consume(pk, digest=digest, caller=caller)
    await _reported(used, caller)


async def _reported(action: Action, caller: Caller):
    await sync_to_async(gate.report)(action, Status.SUCCEEDED, caller=caller, details={}, note="Put in, once.")


def stop_asking(pk: str):
    """Withdraw the action, as the program that asked went away."""
    action = Action.objects.select_related("agent").get(pk=pk)
    try:
        gate.cancel(action, caller=_caller(action.agent))
    except Problem:
        pass  # it was answered meanwhile


def _caller(agent) -> Caller:
    return Caller(roles={agent.team_id: "agent"}, agent=agent)
