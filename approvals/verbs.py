"""Handrail's own verbs as actions: what an agent wishes of a workspace that a person must allow first.

Deleting and pushing any workspace, letting it reach a host, and commands, restores and resets in a user's own folder.
`ask` is called by the API of workspaces through the setting HANDRAIL_ASK; `carrier` is the effect's kind once the
action is approved.
"""

from collections.abc import Callable
from dataclasses import dataclass

from django.db.models import Q

from approvals import gate
from approvals.calls import BROKER, Call
from approvals.endings import mark_uncertain, record_carried
from approvals.models import Action, Status
from approvals.reading import OWN_VERBS, content, with_all
from dashboard.models import Actor
from dashboard.problems import conflict
from workspaces import effects, leaving, lifecycle, network
from workspaces.models import Effect
from workspaces.runner.job import Kind

RUNNER = Actor.system("runner")
LONGEST = 3600.0  # seconds that a move may take before it is called unclear


@dataclass(frozen=True)
class Verb:
    """`move(workspace, arguments, by)` asks lifecycle for it and returns the Effect."""

    tool: str
    move: Callable[..., Effect]


VERBS = {
    "delete": Verb("Handrail.Delete", lambda workspace, wish, by: lifecycle.trash(workspace, by=by)),
    "reset": Verb("Handrail.Reset", lambda workspace, wish, by: lifecycle.reset(workspace, by=by)),
    "restore": Verb(
        "Handrail.Restore",
        lambda workspace, wish, by: lifecycle.restore(workspace, wish["snapshot"], by=by, paths=wish.get("paths")),
    ),
    "allow": Verb("Handrail.Allow", lambda workspace, wish, by: network.allow_by_runner(workspace, wish, by=by)),
    "push": Verb("Handrail.Push", lambda workspace, wish, by: leaving.push(workspace, wish["branch"], by=by)),
}
assert {verb.tool for verb in VERBS.values()} == set(OWN_VERBS)


def must_ask(caller, workspace, verb: str) -> bool:
    """An agent deletes nothing by itself, and in a user's own folder it changes nothing by itself."""
    if caller.is_person:
        return False
    return verb in ("delete", "push", "allow") or workspace.environment.driver == "folder"


def ask(caller, workspace, verb: str, wish: dict, *, idempotency_key=None) -> Action | None:
    """The action that waits for a person, or None: the caller may go ahead. Asked again, it is the same action."""
    if not must_ask(caller, workspace, verb):
        return None
    if verb == "command":
        if "command" not in wish:
            raise conflict("In a user's own folder an agent's command is {command}: it is shown to a person first.")
        arguments = {"command": wish["command"]} | (
            {"timeout": wish["timeout_s"] * 1000} if "timeout_s" in wish else {}
        )
        call = Call("Bash", arguments, workspace=workspace, mode=BROKER, session="api", cwd=wish.get("cwd"))
    else:
        tool = VERBS[verb].tool
        call = Call(tool, wish, workspace=workspace, mode=BROKER, session="api", own_verb=True)
    return gate.submit(call, caller=caller)[0]


class OwnVerb(Kind):
    """Use the approval up, ask lifecycle, and wait for its end."""

    async def perform(self, job):
        await job.refresh()
        action, call = await job.thread(self._ready, job)
        await job.started()
        if action.status == Status.APPROVED and not await job.thread(gate.take, action, action.digest, by=RUNNER):
            raise conflict("It was taken back.")
        verb = next(verb for verb in VERBS.values() if verb.tool == action.tool)
        move = await job.thread(verb.move, job.workspace, call["arguments"], job.by)
        await job.progress(move=str(move.pk))
        return await self._ended(move)

    async def recover(self, job):
        move = await job.thread(Effect.objects.filter(pk=job.effect.progress.get("move")).first)
        if move is None:
            return {"ok": False, "uncertain": True, "reason": "The runner stopped while it was about to do it."}
        return await self._ended(move)

    async def _ended(self, move):
        move = await effects.settled(move, LONGEST)
        if not effects.is_over(move):
            return {"ok": False, "uncertain": True, "reason": "It is still under way after an hour."}
        return {"ok": move.outcome["ok"], "reason": move.outcome.get("reason") or "Done."}

    def _ready(self, job):
        action = with_all(Action.objects.filter(pk=job.args["action"])).get()
        gate.check_consumable(action, job.args["digest"])
        return action, content(action)

    def finish(self, job, outcome):
        action = Action.objects.get(pk=job.args["action"])
        if outcome.get("uncertain"):
            mark_uncertain(action, outcome["reason"], by=RUNNER, when=Q(status=Status.RUNNING))
        elif not record_carried(action, outcome, by=RUNNER, when=Q(status=Status.RUNNING)):
            gate.withdraw(action, RUNNER, f"It did not run: {outcome.get('reason')}", why="not started")


carrier = OwnVerb()
