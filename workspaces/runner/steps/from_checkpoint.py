"""Put the disks and the memory of a checkpoint in place, in its own workspace or in a new one."""

from workspaces import secrets
from workspaces.host import paths
from workspaces.models import Checkpoint, Run, Workspace
from workspaces.runner.job import Job
from workspaces.runner.refusals import Refused
from workspaces.runner.run_spec import spec_of
from workspaces.services import run_tokens


def find_checkpoint(pk: str) -> Checkpoint:
    """Return the checkpoint; raise Refused if it is gone."""
    found = Checkpoint.objects.kept().select_related("snapshot", "workspace").filter(pk=pk).first()
    if found is None:
        raise Refused("The checkpoint was deleted.")
    return found


async def restore_files(job: Job, checkpoint: Checkpoint) -> None:
    """Replace disks and memory of the workspace, of which nothing runs."""
    place = paths.checkpoint_of(checkpoint.workspace_id, checkpoint.pk)
    await job.driver.put_checkpoint(spec_of(job.workspace, job.operation.pk), place)


async def restore_files_for_fork(job: Job) -> None:
    """Put the checkpoint in place that a new workspace continues from, if it does."""
    if pk := checkpoint_id_of(job.workspace):
        checkpoint = await job.thread(find_checkpoint, pk)
        await job.thread(_search_for_values, job.workspace, checkpoint)
        await restore_files(job, checkpoint)


def checkpoint_id_of(workspace: Workspace) -> str:
    """Return the id of the checkpoint that a fork continues from, else ""."""
    return workspace.source.get("fork", {}).get("checkpoint", "")


def why_booted(workspace: Workspace, run: Run) -> str:
    """Return why a fork of a checkpoint was booted, as a sentence; "" if its programs went on."""
    return (
        f"It was booted with the checkpoint's files: {run.why_cold}" if checkpoint_id_of(workspace) and run.cold else ""
    )


def _search_for_values(workspace: Workspace, checkpoint: Checkpoint):
    """Have the fork's files searched for the secrets that the programs in its memory were given before."""
    origin = checkpoint.workspace
    secrets.copy_to_fork(origin, workspace)
    run_tokens.search_for_former(workspace, origin.key, checkpoint.began)
