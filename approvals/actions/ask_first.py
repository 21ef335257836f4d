"""Handrail's own verbs as actions: requests of an agent to change a workspace that a person must approve first.

workspaces/operations/needs_approval.py raises AskFirst for them, and `ask` turns it into an action. Once that is approved, the
operation kind `workspace_action` calls the same function again, with the approval in the actor.
"""

import hashlib

from django.conf import settings
from django.db.models import Q

from approvals.actions import bound_files, gate
from approvals.actions.expiry import mark_uncertain, record_carried
from approvals.actions.transitions import final_decision, withdraw
from approvals.evaluation.calls import BROKER, Call, root_of
from approvals.evaluation.judge import content, judge_or_ask, with_all
from approvals.evaluation.own_verbs import OWN_VERBS, PUSHES, tool_of
from approvals.models import Action, ActionEndCode, Status
from dashboard.problems import conflict, invalid
from dashboard.text.strict_json import canonical
from workspaces import operations
from workspaces.models import Command, Operation, Phase, ReasonCode, Terminal
from workspaces.operations import holding
from workspaces.operations.needs_approval import AskFirst
from workspaces.runner.job import Kind
from workspaces.runner.refusals import Refused, unclear

OF_A_PUSH = ("pushed", "remote", "missing", "missing_count", "shown", "now", "url", "number")  # for the agent's report
OPERATION_TIMEOUT = 3600.0  # seconds that an operation may take before its action is marked uncertain
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


def runs_unasked(workspace, command: str, cwd: str) -> bool:
    """Return whether the policy lets an agent's shell call run that nothing holds, without asking anybody."""
    return judge_or_ask("Bash", {"command": command}, cwd, workspace, workspace.team_id).is_allowed


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


# Carrying out ---------------------------------------------------------------------------------------------------------


def _commit(call: dict) -> dict:
    """Return {sha, seen} of what the card of a push showed, {} for other verbs. Problem 409 if it showed no commit."""
    if call["tool"] not in PUSHES:
        return {}
    bound = {file["kind"]: file["sha256"] for file in call.get("files", [])}
    if bound_files.COMMIT not in bound:
        raise conflict("The commit could not be read when this was approved, so nothing was pushed. Ask again.")
    return {"sha": bound[bound_files.COMMIT], "seen": bound.get(bound_files.SENDS, "")}


class WorkspaceAction(Kind):
    """Consume the approval, call the verb's function, and wait for its operation."""

    async def perform(self, job):
        await job.refresh()
        action, call = await job.thread(self._ready, job)
        if action.status == Status.APPROVED:
            await job.thread(bound_files.verify, action)
        await job.mark_started()
        if action.status == Status.APPROVED and not await job.thread(
            gate.mark_running, action, action.digest, by=job.by
        ):
            raise conflict("The approval is no longer valid.")
        wish = call["arguments"] | _commit(call)
        made = await job.thread(OWN_VERBS[action.tool].perform, job.workspace, wish, job.by)
        if isinstance(made, Terminal):
            return {"ok": True, "reason": "Opened.", "terminal": str(made.pk)}
        if made is None:
            return {"ok": True, "reason": "Done."}
        await job.progress(operation=str(made.pk))
        return await self._ended(made)

    async def recover(self, job):
        operation = await job.thread(Operation.objects.filter(pk=job.operation.progress.get("operation")).first)
        if operation is None:
            raise unclear("The runner stopped while starting this.")
        return await self._ended(operation)

    async def _ended(self, operation):
        operation = await operations.wait_async(operation, OPERATION_TIMEOUT)
        if not operations.is_over(operation):
            raise unclear("Still running after an hour.", ReasonCode.LOST)
        told = operation.outcome
        more = {name: told[name] for name in OF_A_PUSH if name in told}
        if not told["ok"]:
            is_unclear = {"uncertain": True} if operation.phase == Phase.UNCERTAIN else {}
            raise Refused(told["reason"], ReasonCode(told["reason_code"]), **more, **is_unclear)
        return {"ok": True, "reason": told.get("reason") or "Done.", **more}

    def _ready(self, job):
        action = with_all(Action.objects.filter(pk=job.args["action"])).get()
        gate.check_consumable(action, job.args["digest"])
        return action, content(action)

    def finish(self, job, outcome):
        action = Action.objects.get(pk=job.args["action"])
        if outcome.get("uncertain"):
            mark_uncertain(action, outcome["reason"], by=job.by, when=Q(status=Status.RUNNING))
        elif (
            not record_carried(action, outcome, by=job.by, when=Q(status=Status.RUNNING))
            and action.digest == job.args["digest"]  # else it needs approval again, for other bytes
        ):
            withdraw(action, job.by, f"It did not run: {outcome.get('reason')}", code=ActionEndCode.NOT_STARTED)


KIND = WorkspaceAction()
