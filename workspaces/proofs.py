"""What people ask about a proof: every byte once more, and an answer to one that did not hold."""

from dashboard.models import Actor
from dashboard.problems import conflict
from workspaces import lifecycle
from workspaces.models import Effect, State


def prove(workspace, *, by: Actor) -> Effect:
    """Compare every byte of one that is at rest with its newest snapshot."""
    lifecycle.must_be(workspace, State.PAUSED, State.STOPPED, what="compared byte by byte")
    return lifecycle.join(workspace, "prove", by=by)


def keep_found(workspace, *, by: Actor) -> Effect:
    """The answer "keep what is there" to a proof that did not hold: a snapshot of it, and no alarm any more."""
    workspace.refresh_from_db(fields=["alarm"])
    if not workspace.alarm:
        raise conflict(f"{workspace.key} has nothing to answer: what came back is what went away.")
    return lifecycle.snapshot(workspace, by=by, kind="kept", label="kept as it was found")
