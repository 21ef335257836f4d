"""The kind of operation that carries out one of Handrail's own verbs once a person approved it."""

from django.db.models import Q

from approvals.actions import bound_files, gate, way_back_search
from approvals.actions.expiry import mark_uncertain, record_carried
from approvals.actions.transitions import withdraw
from approvals.broker import way_back
from approvals.evaluation.judge import content, with_all
from approvals.evaluation.own_verbs import OWN_VERBS, PUSHES
from approvals.models import Action, ActionEndCode, Status
from dashboard.problems import conflict
from workspaces import operations
from workspaces.models import Operation, Phase, ReasonCode, Terminal
from workspaces.runner.job import Kind
from workspaces.runner.refusals import Refused, unclear

OF_A_PUSH = (
    "pushed",
    "remote",
    "missing",
    "missing_count",
    "shown",
    "now",
    "url",
    "number",
    "is_new",
)  # for the agent's report
OPERATION_TIMEOUT = 3600.0  # seconds that an operation may take before its action is marked uncertain


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
            await job.thread(bound_files.verify, action, bound_files.UNHURRIED)
            await way_back.ensure(job, action)
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
        operation = await operations.wait_async(operation, OPERATION_TIMEOUT, patient=True)
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
        action = with_all(Action.objects.filter(pk=job.args["action"])).get()
        if found := way_back.of_push(action, outcome):
            way_back_search.note(action, found, by=way_back_search.HANDRAIL)
        if outcome.get("uncertain"):
            mark_uncertain(action, outcome["reason"], by=job.by, when=Q(status=Status.RUNNING))
        elif (
            not record_carried(action, outcome, by=job.by, when=Q(status=Status.RUNNING))
            and action.digest == job.args["digest"]  # else it needs approval again, for other bytes
        ):
            withdraw(action, job.by, f"It did not run: {outcome.get('reason')}", code=ActionEndCode.NOT_STARTED)
