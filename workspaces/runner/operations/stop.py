"""Stop a workspace."""

from workspaces.models import EndCode, State
from workspaces.runner.steps.shutdown import EndRun


class Stop(EndRun):
    state, verb, end_code = State.STOPPED, "workspace.stopped", EndCode.STOPPED
    before = (State.READY, State.PAUSED)
