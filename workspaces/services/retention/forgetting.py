"""Operations of kind `forget`: the runner empties homes and deletes what programs printed, on the workspace's host."""

from workspaces import operations
from workspaces.models import Operation, Workspace
from workspaces.services.retention.actor import SWEEPER

FORGET = "forget"


def forget(workspace_id, *, home: bool = False, programs: list[str] | None = None):
    """Submit the operation, unless one that does the same is open."""
    args = {"home": home, "programs": sorted(programs or [])}
    under_way = Operation.objects.open().filter(kind=FORGET, workspace=workspace_id)
    if args in under_way.values_list("args", flat=True):
        return
    workspace = Workspace.objects.get(pk=workspace_id)
    operations.submit(FORGET, workspace=workspace, by=SWEEPER, args=args, exclusive=True)


def being_forgotten(team) -> set[str]:
    """Return the ids of the programs in the open operations of a team."""
    args = Operation.objects.open().filter(kind=FORGET, workspace__team=team).values_list("args", flat=True)
    return {program for one in args for program in one["programs"]}
