"""Let a host cease to be a member: nothing is there any more, and it is refused from now on."""

from dashboard.database import clock
from dashboard.models import Actor, Event
from dashboard.problems import conflict
from workspaces.models import JoinToken, Runner, StoreIdentity, Workspace

SHOWN = 5  # names


def remove(row: Runner, *, by: Actor):
    """Remove a silent host on which nothing is. Its certificates are refused, and it does not start. Problem 409."""
    if row.answers:
        raise conflict(f"{row.host} answers. Stop its `make up` first.")
    placed = Workspace.objects.filter(runner=row, purged_at=None).order_by("key")
    if keys := list(placed.values_list("key", flat=True)[: SHOWN + 1]):
        raise conflict(
            f"{_named(keys)} on {row.host}. Drain it first: `manage.py host drain {row.host}`; if it is "
            f"gone for good: `manage.py host lost {row.host}`."
        )
    stores = StoreIdentity.objects.filter(host=row.host).order_by("team__slug")
    if slugs := list(stores.values_list("team__slug", flat=True)[: SHOWN + 1]):
        raise conflict(
            f"The snapshots of {', '.join(slugs)} are on {row.host}. Put its folder stores/ on another host, and "
            "accept them there: `manage.py accept_store TEAM`."
        )
    JoinToken.objects.filter(host=row.host, used_at=None).delete()
    Runner.objects.filter(pk=row.pk).update(removed_at=clock.now(), heartbeat_at=None, keys={}, capabilities={})
    Event.objects.record_for_all(actor=by, verb="host.removed", data={"host": row.host})


def _named(keys: list[str]) -> str:
    shown = ", ".join(keys[:SHOWN]) + (" and others" if len(keys) > SHOWN else "")
    return f"{shown} {'is' if len(keys) == 1 else 'are'}"
