"""What an operator says of a host: it takes no new workspaces (drain), it takes some again, or it is lost for good."""

from dashboard.database import clock
from dashboard.models import Actor
from dashboard.problems import conflict, not_found
from workspaces.lifecycle.lost_hosts import give_up
from workspaces.models import Runner, Workspace


def find(name: str) -> Runner:
    """Return the row of the host with this name; Problem 404 if no host of this database has it."""
    row = Runner.objects.filter(host=name).first()
    if row is None:
        raise not_found("host")
    return row


def drain(runner: Runner):
    """Give the host no new workspaces from now on. What is there stays until it is moved."""
    Runner.objects.filter(pk=runner.pk, draining_at=None).update(draining_at=clock.now())


def undrain(runner: Runner):
    """Let the host take new workspaces again."""
    Runner.objects.filter(pk=runner.pk).update(draining_at=None)


def declare_lost(runner: Runner, *, by: Actor) -> list[Workspace]:
    """Say that a silent host does not come back for now; return its workspaces. Problem 409 while it answers."""
    if runner.is_alive:
        raise conflict(f"{runner.host} answers. Drain it instead, or stop it first.")
    Runner.objects.filter(pk=runner.pk).update(lost_at=clock.now())
    return give_up(runner, by=by)
