"""What an operator says of a host: it takes no new workspaces (drain), it takes some again, or it is lost."""

from datetime import timedelta

from django.conf import settings

from dashboard.database import clock
from dashboard.models import Actor, Event
from dashboard.problems import conflict, not_found
from workspaces.lifecycle import lost_hosts
from workspaces.models import Runner, StoreIdentity, Workspace
from workspaces.provisioning import placement
from workspaces.services.hosts import moving


def find(name: str) -> Runner:
    """Return the row of the member with this name; Problem 404 if there is none, also for one that was removed."""
    row = Runner.objects.members().filter(host=name).first() if "\0" not in name else None
    if row is None:
        raise not_found("host")
    return row


def state_of(runner: Runner) -> tuple[str, object]:
    """Return (ready, draining, unreachable or lost; since when, None if ready)."""
    if runner.lost_at:
        return "lost", runner.lost_at
    if not (runner.is_alive if runner.runs("runner") else runner.answers):
        return "unreachable", runner.heard_at
    return ("draining", runner.draining_at) if runner.draining_at else ("ready", None)


def shown() -> list[dict]:
    """Return each host by its name: {name, state, since, address, version, parts, heard, drivers, room, …}."""
    promised, rows = placement.promised(), Runner.objects.members().order_by("host")
    return [_shown(runner, promised[runner.pk]) for runner in rows]


def _shown(runner: Runner, running: list[dict]) -> dict:
    state, since = state_of(runner)
    probes = {name: _probe(probe) for name, probe in runner.capabilities.items()}
    figures = {name: sum(limits.get(name) or 0 for limits in running) for name in ("memory_bytes", "cpus")}
    return {
        "name": runner.host,
        "state": state,
        "since": since,
        "address": runner.address,
        "version": runner.version,
        "parts": runner.parts,
        "heard": runner.heard(),
        "drivers": probes,
        "room": {name: runner.room.get(name, 0) for name in ("runs", "memory_bytes", "cpus")},
        "promised": {"runs": len(running)} | figures,
        "workspaces": runner.workspaces.filter(purged_at=None).count(),
        "snapshots_of": list(
            StoreIdentity.objects.filter(host=runner.host).order_by("team__slug").values_list("team__slug", flat=True)
        ),
    }


def _probe(probe: dict) -> dict:
    return {name: probe.get(name) for name in ("available", "isolation", "reason")}


def may_manage(caller) -> bool:
    """Return whether the caller may drain hosts and say that one is lost: a superuser, as a host is of all teams."""
    return caller.is_person and caller.user.is_superuser


def _record(what: str, runner: Runner, by: Actor):
    """Record in the log of each team what was said of a host."""
    Event.objects.record_for_all(actor=by, verb=f"host.{what}", data={"host": runner.host})


# Drain ---------------------------------------------------------------------------------------------------------------


def drain(runner: Runner, *, by: Actor, now: bool = False) -> list[tuple[Workspace, str]]:
    """Give the host no new workspaces, and move those that are there once they are idle, with `now` at once.

    Return of each workspace, in words, where it goes or why it stays.
    """
    if Runner.objects.filter(pk=runner.pk, draining_at=None).update(draining_at=clock.now()):
        _record("drained", runner, by)
    return [(each, moving.leave_host(each, by=by, now=now)) for each in moving.at(runner)]


def undrain(runner: Runner, *, by: Actor):
    """Let the host take new workspaces again."""
    if Runner.objects.filter(pk=runner.pk, draining_at__isnull=False).update(draining_at=None):
        _record("undrained", runner, by)


# Lost ----------------------------------------------------------------------------------------------------------------


def declare_lost(runner: Runner, *, by: Actor) -> list[Workspace]:
    """Say that a silent host is lost: others lead its workspaces, which come back from their newest snapshots.

    Return its workspaces as they are now. Problem 409 while it answers.
    """
    if runner.is_alive:
        raise conflict(f"{runner.host} answers. Drain it instead, or stop it first.")
    if not runner.runs("runner"):
        raise conflict(
            f"{runner.host} has no workspaces to bring back. `manage.py host remove {runner.host}` removes it."
        )
    if not Runner.objects.filter(pk=runner.pk, lost_at=None).update(lost_at=clock.now()):
        raise conflict(f"{runner.host} is lost already.")
    runner.refresh_from_db()
    _record("lost", runner, by)
    return lost_hosts.take_over(runner, by=by)


def long_silent(here: Runner):
    """Return the other hosts that have been silent for HANDRAIL_LOST_MINUTES; none while that is 0."""
    if not settings.HANDRAIL_LOST_MINUTES:
        return Runner.objects.none()
    since = clock.now() - timedelta(minutes=settings.HANDRAIL_LOST_MINUTES)
    return Runner.objects.exclude(pk=here.pk).filter(heartbeat_at__lt=since, lost_at=None)


def lose_long_silent(here: Runner):
    for runner in long_silent(here):
        declare_lost(runner, by=Actor.system("HANDRAIL_LOST_MINUTES"))
