"""Keep the files that a lost host came back with as a fork of their workspace, or remove them."""

from django.contrib.auth import get_user_model

from dashboard.people.access import Caller, caller_of
from dashboard.problems import Problem
from workspaces import lifecycle
from workspaces.models import ReasonCode, Workspace
from workspaces.runner import removing, snapshots
from workspaces.runner.job import Kind
from workspaces.runner.reconcile import returned
from workspaces.runner.refusals import Refused
from workspaces.runner.steps.staged_tree import staged_tree


class KeepReturned(Kind):
    """args: {key}: that of the fork; "" removes the files."""

    when_store_fails = "Nothing was kept: "

    async def perform(self, job):
        workspace = await job.refresh()
        aside = returned.folder_of(workspace.pk)
        await job.mark_started()
        key, number = job.args["key"], job.operation.progress.get("number")
        if key and not number:
            if not aside.is_dir():
                raise Refused("These files are not on this host any more.", ReasonCode.LOST)
            async with staged_tree(job, aside) as tree:
                kept = await job.thread(snapshots.scan, workspace, tree, thorough=True)
            label = f"as {workspace.owed['host']} came back with it"
            number = (await job.thread(snapshots.add_beside, workspace, kept, label=label, by=job.by)).number
            await job.progress(number=number)
        if key:
            await job.thread(_fork, job, key, number)
        await job.thread(removing.remove, aside)
        return {"ok": True, "key": key, "snapshot": number}

    def finish(self, job, outcome):
        if not outcome["ok"]:
            return
        Workspace.objects.filter(pk=job.workspace.pk).update(owed={}, reason="")
        data = {"key": outcome["key"], "snapshot": outcome["snapshot"], "host": job.workspace.owed.get("host", "")}
        verb = "workspace.return_kept" if outcome["key"] else "workspace.return_dropped"
        lifecycle.record(job.workspace, job.by, verb, data)


def _fork(job, key: str, number: int):
    """Create the fork, unless a runner that died has done so. Raise Refused if that is not possible now."""
    workspace = job.workspace
    if Workspace.objects.kept().filter(team=workspace.team_id, key=key, forked_from=workspace).exists():
        return
    try:
        lifecycle.fork(workspace, key, caller=_caller(job), number=number)
    except Problem as problem:
        words = f"Snapshot {number} has what came back; it could not be forked: {problem.detail}"
        raise Refused(words) from problem


def _caller(job) -> Caller:
    """Return the person who asked, as a member of the workspace's team."""
    user = get_user_model().objects.filter(pk=job.by.id).first() if job.by.type == "person" else None
    if user is None:
        raise Refused("Only a person keeps files as a fork.")
    return caller_of(user).only_in(job.workspace.team_id)
