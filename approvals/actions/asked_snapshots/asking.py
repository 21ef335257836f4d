"""Ask the runner for the snapshot, without waiting for it."""

from approvals.models import Action
from approvals.questions import own_questions
from dashboard.models import Actor
from workspaces import operations
from workspaces.models import Operation, Phase

KIND = "asked_snapshot"  # of the operation
HANDRAIL = Actor.system("Handrail")


def request_snapshot(action: Action):
    """Ask for a snapshot of the files as they are now; call it when the action begins to wait, in its transaction.

    None is taken of a connected folder, which may be of any size and changes under its user's hands, nor for an agent's
    own question or plan, which changes nothing. Of a workspace that is on no host yet there are no files. Actions that
    come before the runner has begun share one snapshot.
    """
    workspace = action.workspace
    if workspace is None or workspace.runner_id is None or workspace.environment.capabilities.own_folder:
        return
    if action.tool in own_questions.TOOLS:
        return
    # The lock holds the runner off until the action is there.
    due = Operation.objects.locked().filter(workspace=workspace, kind=KIND, phase=Phase.DUE).first()
    operation = due or operations.submit(
        KIND,
        workspace=workspace,
        args={"action": str(action.pk)},
        by=HANDRAIL,
        exclusive=True,
        dedupe=f"asked:{action.pk}:{action.revision}",
    )
    Action.objects.filter(pk=action.pk).update(asked_operation=operation, asked_snapshot=None)
    action.asked_operation, action.asked_snapshot = operation, None
