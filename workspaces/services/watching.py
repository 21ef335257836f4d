"""How a workspace's files are watched for snapshots, as pages and the API show it; the runner does the watching."""

from workspaces.models import State

NOT_YET = "no snapshot was taken since it came up"
NOT_UP = "it is not up"
SWITCHED_OFF = "HANDRAIL_WATCH=off"


def shown(workspace) -> dict:
    """Return {how, why}: whether snapshots look only at what may have changed."""
    if workspace.watching:
        return workspace.watching
    return {"how": "off", "why": NOT_YET if workspace.state == State.READY else NOT_UP}
