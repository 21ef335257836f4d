"""What a lost host has of workspaces that others lead since: once it is back, a person keeps it as a fork, or not."""

from dashboard.models import Actor, Team
from dashboard.problems import conflict, unavailable
from workspaces import lifecycle, operations
from workspaces.models import Operation, Runner, Workspace
from workspaces.provisioning import placement

KIND = "keep_returned"


def answer(workspace: Workspace, key: str, *, by: Actor) -> Operation:
    """Keep what came back as a fork with this key; without one leave it behind, for good.

    Problem 409 if nothing came back, it is answered already or the key is taken; 503 if the host is away again.
    """
    if not workspace.owed.get("found"):
        raise conflict(f"Nothing of {workspace.key} came back from a lost host.")
    runner = Runner.objects.filter(host=workspace.owed["host"]).first()
    if runner is None or not runner.is_alive:
        silent = placement.silence(runner) if runner else "is not there any more"
        raise unavailable(f"{workspace.owed['host']}, which has these files, {silent}.")
    with Team.objects.turn(workspace.team_id):
        if Operation.objects.open().filter(workspace=workspace, kind=KIND).exists():
            raise conflict("That is being done already.")
        if key:
            lifecycle.check_key(key)
            if Workspace.objects.kept().filter(team=workspace.team_id, key=key).exists():
                raise conflict(f"The key {key} is already used.", field="key")
        return operations.submit(KIND, workspace=workspace, by=by, args={"key": key}, runner=runner)
