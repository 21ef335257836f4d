"""Handrail's own verbs as actions: requests of an agent to change a workspace that a person must approve first.

workspaces/operations/needs_approval.py raises AskFirst for them, and `ask` turns it into an action. Once that is
approved, the operation of approvals/broker/workspace_action.py calls the same function again, with the approval in the
actor.
"""

import hashlib

from django.conf import settings

from approvals.actions import gate
from approvals.actions.transitions import final_decision
from approvals.evaluation.calls import BROKER, Call, root_of
from approvals.evaluation.judge import judge_or_ask
from approvals.evaluation.own_verbs import tool_of
from approvals.models import Action, Status
from dashboard.models import Actor, Agent
from dashboard.problems import conflict, invalid
from dashboard.text.strict_json import canonical
from workspaces.models import Command, Terminal
from workspaces.operations import holding
from workspaces.operations.needs_approval import AskFirst

SHOWN_BYTES = 512 * 1024  # limit for file content, or a name, that is shown to a person
ENDED = (Status.DENIED, Status.EXPIRED, Status.CANCELLED)


# Asking ---------------------------------------------------------------------------------------------------------------


def ask(caller, wanted: AskFirst, idempotency_key: str | None = None) -> dict:
    """Submit the request as an action, or find the one submitted before; Problem 409 once that ended without approval.

    Return {action: {id, tier, title, digest, status, expires_at}, status, url, result, made}; `made` is the Command or
    Terminal that it started, or None.
    """
    tool, arguments, more = _call(wanted)
    body_hash = hashlib.sha256(canonical({"tool": tool, "arguments": arguments})).hexdigest()
    more |= {"idempotency_key": idempotency_key, "body_hash": body_hash, "session": "api", "mode": BROKER}
    action = gate.submit(Call(tool, arguments, workspace=wanted.workspace, **more), caller=caller)[0]
    names = {"id": str(action.pk), "tier": action.tier, "title": action.title, "digest": action.digest}
    told = {"action": names | {"status": action.status, "expires_at": action.expires_at}}
    told |= {"status": action.status, "url": f"{settings.HANDRAIL_PUBLIC_URL}/actions/{action.pk}/"}
    if action.ended_at:
        gate.mark_heard(action)
    if action.status in ENDED:
        raise conflict(_no(action), code=action.status, **{"action": str(action.pk), "action_status": action.status})
    return told | {"result": action.result, "made": _made(action)}


def runs_without_approval(workspace, command: str, cwd: str, by: Actor) -> bool:
    """Return whether the policy lets the agent `by` run a shell call that nothing holds, without asking anybody."""
    agent = Agent.objects.values_list("name", flat=True).get(pk=by.id)
    call = "Bash", {"command": command}, cwd, workspace, workspace.team_id
    return judge_or_ask(*call, agent=agent).is_allowed


def _no(action: Action) -> str:
    """Return why the action was not carried out."""
    decision = final_decision(action)
    said = f" {decision.user.get_username()}: {decision.comment}" if decision and decision.comment else ""
    return f"A-{action.number} was {action.status}, so it did not run.{said}"


def _made(action: Action) -> Command | Terminal | None:
    """Return the program that an approved action has started, if any."""
    if pk := (action.result or {}).get("terminal"):
        return Terminal.objects.select_related("operation").filter(pk=pk).first()
    if action.tool == "Bash" and action.operation_id:
        return Command.objects.select_related("operation").filter(operation=action.operation_id).first()
    return None


def _call(wanted: AskFirst) -> tuple[str, dict, dict]:
    """Return (tool, arguments, further fields of Call); commands and writes become Bash and Write calls."""
    wish = wanted.wish
    if wanted.verb == "command":
        arguments = {"command": holding.shell_text(wanted.workspace, wish)}
        if "timeout_s" in wish:
            arguments["timeout"] = wish["timeout_s"] * 1000
        return "Bash", arguments, {"cwd": wish.get("cwd")}
    if wanted.verb == "write":
        path = f"{root_of(wanted.workspace)}/{_text(wish['path'], 'name')}"
        return "Write", {"file_path": path, "content": _text(wish["data"], "file")}, {"asks": True}
    if wanted.verb == "remove":
        wish = {"path": _text(wish["path"], "name")}
    if wanted.verb == "restore" and "paths" in wish:
        paths = [_text(path, "name") if isinstance(path, bytes) else path for path in wish["paths"]]
        wish = wish | {"paths": paths}
    return tool_of(wanted.verb), wish, {"own_verb": True}


def _text(data: bytes, what: str) -> str:
    """Decode data that is shown to a person. Problem 422 if it is too large or not UTF-8."""
    if len(data) > SHOWN_BYTES:
        raise invalid(f"The {what} is shown for approval, so it can have at most {SHOWN_BYTES:,} bytes.")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise invalid(f"The {what} is shown for approval, so it must be UTF-8.") from None
