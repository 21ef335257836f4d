"""The findings about the hosts of a database: their runners and drivers."""

from django.conf import settings
from django.db import DatabaseError

from dashboard.database import clock
from dashboard.files.locks import is_locked
from dashboard.ops.findings import Finding
from workspaces.envelope.ring import is_held
from workspaces.models import RUNNER_TIMEOUT, Runner, State, Workspace
from workspaces.services import hosts as known_hosts


def runner(*, deep: bool) -> Finding:
    """Check that at least one runner is alive; silent hosts have findings of their own.

    `deep`: the one of this host also holds its lock, so that it is not called running just after it has ended.
    """
    now = clock.now()
    runners = list(Runner.objects.filter(heartbeat_at__isnull=False).order_by("-heartbeat_at"))
    if not runners:
        return Finding("runner", False, "No runner is ready yet.", "Start Handrail with `make up`.")
    alive = [runner for runner in runners if runner.is_alive and not (deep and _has_stopped(runner))]
    age = round((now - runners[0].heartbeat_at).total_seconds())
    if not alive and deep and _has_stopped(runners[0]):
        return Finding("runner", False, f"Stopped, last heartbeat {age} s ago.", "Start Handrail with `make up`.")
    if not alive:
        return Finding(
            "runner",
            False,
            f"No heartbeat for {age} s. Workspaces stay as they are; nothing new starts.",
            "It restarts automatically; see the `runner` lines of `make up`.",
        )
    return Finding("runner", True, f"Running, last heartbeat {age} s ago.")


def _has_stopped(runner: Runner) -> bool:
    """Return whether a runner of this host has ended: it holds a lock for as long as it runs."""
    return runner.host == settings.HANDRAIL_HOST_NAME and not is_locked(settings.HANDRAIL_HOME / "runner.lock")


def _envelope_text(abilities: dict | None) -> str:
    """Return how far a driver holds programs to envelopes, as a sentence."""
    if not abilities:
        return "Whether programs can be held to envelopes is not known yet."
    found = f"Landlock {abilities['landlock'] or 'none'}" + ("" if abilities["seccomp"] else ", no seccomp filters")
    found += ", namespaces that show only what is allowed" if abilities.get("apart") else ""
    if is_held(abilities):
        return f"Programs are held to envelopes ({found})."
    return f"Programs are not held to envelopes ({found}{'' if abilities['mount_view'] else ', no mount views'})."


def drivers(*, brief: bool = False) -> list[Finding]:
    """Report each driver as this host's runner probed it, else as the newest one did; nothing is known without one.

    `brief` leaves out what names paths of the host: why a driver is not available, and what to do.
    """
    try:
        probed = list(Runner.objects.filter(heartbeat_at__isnull=False).order_by("-heartbeat_at"))
        here = [row for row in probed if row.host == settings.HANDRAIL_HOST_NAME]
        runner = next(iter(here or probed), None)
    except DatabaseError:
        runner = None
    findings = []
    for name, probe in sorted((runner.capabilities if runner else {}).items()):
        notes = " ".join(probe.get("notes", []))
        part, used = f"driver {name}", _workspaces_on(runner, name)
        if probe.get("available"):
            envelope = _envelope_text(probe.get("envelope"))
            words = f"Available, isolation: {probe.get('isolation')}. {envelope} {notes}".strip()
            findings.append(Finding(part, True, words, needed=False, is_used=bool(used)))
        else:
            reason = "" if brief else probe.get("reason")
            words = f"{reason or 'Not available.'} {used} {'' if brief else notes}".strip()
            what_to_do = "" if brief else probe.get("what_to_do", "")
            findings.append(Finding(part, False, words, what_to_do, needed=bool(used), is_used=bool(used)))
    return findings


def _workspaces_on(runner: Runner, driver: str) -> str:
    """Return how many workspaces of this host a driver runs, as a sentence; "" if none."""
    kept = Workspace.objects.kept().filter(runner=runner, environment__driver=driver)
    number = kept.exclude(state__in=[State.ARCHIVED, State.FAILED]).count()
    return f"{number} {'workspace is' if number == 1 else 'workspaces are'} on it." if number else ""


def hosts() -> list[Finding]:
    """Report each host, where there are several, and versions that are not the same."""
    try:
        rows = list(Runner.objects.members().order_by("host"))
    except DatabaseError:  # its own finding says so
        return []
    if len(rows) < 2:
        return []
    return [*(_host(row) for row in rows), *_versions(rows)]


def not_a_member() -> list[Finding]:
    """Report this host if others lead its workspaces now, as it was declared lost, or if it was removed."""
    try:
        row = Runner.objects.filter(host=settings.HANDRAIL_HOST_NAME).first()
    except DatabaseError:  # its own finding says so
        return []
    if row is None or not (row.lost_at or row.removed_at):
        return []
    if row.removed_at:
        return [Finding("host", False, "This host was removed from its installation.")]
    words = "This host was declared lost. It answers again once it has put the files of its workspaces aside."
    return [Finding("host", False, words)]


def _host(row: Runner) -> Finding:
    state, since = known_hosts.state_of(row)
    part, ok = f"host {row.host}", state in ("ready", "draining")
    if state == "lost":
        words, fix = f"Declared lost at {clock.in_utc(since)}.", "When it is back, its `make up` makes it a host again."
    elif not ok and since is None:
        words, fix = "It was not heard of since it joined or started.", "Start `make up` there."
    elif not ok:
        fix = f"Start `make up` there. If it is gone for good: `manage.py host lost {row.host}`."
        words = f"Unreachable since {clock.in_utc(since)}."
    else:
        words, fix = _what_runs(row), ""
        if state == "draining":
            words += f" Draining since {clock.in_utc(since)}: it gets no new workspaces."
        if silent := [name for name, at in row.heard().items() if at is not None and not _is_new(at)]:
            words, ok = f"{words} No heartbeat of its {' and '.join(silent)}.", False
            fix = "It restarts automatically; see the lines of `make up` there."
    return Finding(part, ok, words, fix, needed=False)


def _what_runs(row: Runner) -> str:
    drivers = [name for name, probe in sorted(row.capabilities.items()) if probe.get("available")]
    words = f"Runs {' and '.join(row.heard())}, version {row.version or 'unknown'}."
    return words + (f" Drivers: {', '.join(drivers)}." if drivers else "")


def _is_new(moment) -> bool:
    return moment > clock.now() - RUNNER_TIMEOUT


def _versions(rows: list[Runner]) -> list[Finding]:
    found = {row.version for row in rows if row.answers}
    if len(found) < 2:
        return []
    words = f"Hosts run different versions: {', '.join(f'{row.host} {row.version}' for row in rows if row.answers)}."
    return [Finding("versions", True, words, "Bring all hosts to the newest one.", needed=False)]
