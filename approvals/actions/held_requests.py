"""Requests of workspaces that the egress proxy holds open, as actions (workspaces/runner/leashes.py).

A use of a credential beyond its leash: the approval is the injection, once. A request that the rules of the environment
do not cover: the answer holds for its host and method as long as the Run lasts.
"""

from asgiref.sync import sync_to_async

from approvals.actions import gate
from approvals.actions.expiry import end_if_due
from approvals.actions.transitions import final_decision
from approvals.evaluation.calls import Call, parsed
from approvals.evaluation.own_verbs import CREDENTIAL, REQUEST
from approvals.models import Action, Status
from dashboard.people.access import Caller
from dashboard.problems import Problem
from workspaces.models import Run
from workspaces.services import run_tokens

UNANSWERED = (Status.CANCELLED, Status.EXPIRED)
ALIKE = ("host", "method")  # two requests of one Run that are asked about once


def ask(workspace, wish: dict, run: str) -> tuple[str, str]:
    """Submit a request as an action; return its id and digest. Problem.

    `wish` is {credential, host, method, path, query, body_bytes, body_sha256}; without a credential, what was asked
    before for the host and method in this Run is returned.
    """
    tool = CREDENTIAL if "credential" in wish else REQUEST
    agent = run_tokens.agent_of(workspace)
    if tool == REQUEST and (known := _asked_before(workspace, wish, run)) is not None:
        return str(known.pk), known.digest
    action, _ = gate.submit(Call(tool, wish, workspace=workspace, own_verb=True), caller=_caller(agent))
    return str(action.pk), action.digest


def _asked_before(workspace, wish: dict, run: str) -> Action | None:
    since = Run.objects.values_list("started_at", flat=True).get(pk=run)
    found = Action.objects.filter(workspace=workspace, tool=REQUEST, created_at__gte=since)
    for action in found.exclude(status__in=UNANSWERED).order_by("-created_at"):
        asked = parsed(action.revisions.get(number=action.revision).canonical)["arguments"]
        if all(asked[name] == wish[name] for name in ALIKE) and end_if_due(action).status not in UNANSWERED:
            return action
    return None


def answer(pk: str) -> str | None:
    """Return "" for an approval, None while nobody has answered, else why the answer is no."""
    action = end_if_due(Action.objects.select_related("agent").get(pk=pk))
    if action.status == Status.PENDING:
        return None
    holds_on = action.tool == REQUEST and action.status in (Status.RUNNING, Status.SUCCEEDED)
    if action.status == Status.APPROVED or holds_on:
        return ""
    decision = final_decision(action)
    comment = f" {decision.user.get_username()}: {decision.comment}" if decision and decision.comment else ""
    what = "the credential was not put in" if action.tool == CREDENTIAL else "the request was not sent"
    return f"A-{action.number} was {action.status}, so {what}.{comment}"


async def use(pk: str, digest: str):
    """Use the approval of what was asked up. Problem 409 if it is no longer good, or a person edited the call."""
    action = await Action.objects.select_related("agent").aget(pk=pk)
    caller = _caller(action.agent)
    if action.tool == REQUEST and action.status == Status.SUCCEEDED:
        return  # it holds on
    if action.status != Status.RUNNING or action.tool == CREDENTIAL:
        action = await gate.consume(pk, digest=digest, caller=caller)
    await sync_to_async(_report)(action, caller)


def _report(action: Action, caller: Caller):
    note = (
        "Put in, once." if action.tool == CREDENTIAL else "Sent. It holds for this host and method until the run ends."
    )
    gate.report(action, Status.SUCCEEDED, caller=caller, details={}, note=note)


def stop_asking(pk: str):
    """Withdraw the action, as the program that asked went away."""
    action = Action.objects.select_related("agent").get(pk=pk)
    try:
        gate.cancel(action, caller=_caller(action.agent))
    except Problem:
        pass  # it was answered meanwhile


def _caller(agent) -> Caller:
    return Caller(roles={agent.team_id: "agent"}, agent=agent)
