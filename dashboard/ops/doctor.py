"""Diagnose each part and say how to fix it: for /readyz, the Status page and `manage.py doctor`."""

import http.client
import math
import os
import shutil
import sqlite3
import tempfile
import time
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError, connection

from dashboard.database import clock
from dashboard.event_log import triggers, witness
from dashboard.event_log.verify import RENDER_SECONDS, verify_in_time
from dashboard.models import BackupPlan, Team
from dashboard.net.addresses import in_url, to_call
from dashboard.ops import database, host_findings, scheduled_backups, upstream_proxy
from dashboard.ops.findings import Finding
from dashboard.people import passkeys, sso
from dashboard.workers import lanes, loop_watch
from workspaces.changes import stores
from workspaces.host import parts, team_stores
from workspaces.models import Runner
from workspaces.store import StoreError

QUEUE_STALE = 120.0  # seconds; the queue touches its heartbeat every 5
DISK_NEEDED, DISK_COMFORT = 200 * 10**6, 2 * 10**9  # bytes


def needed_to_work() -> list[Finding]:
    """Return the quick checks for /readyz, made inside the web server. Messages are safe to show to anybody."""
    needed = [Finding("web", True, "Running."), *_database(deep=False), *_bucket(deep=False), *_store()]
    needed += host_findings.not_a_member()
    return needed + [found for found in _drivers(brief=True) if found.is_used and not found.ok]


def examine(*, deep: bool) -> list[Finding]:
    """Return all findings. `deep` also checks the database page by page and calls the web server over HTTP.

    Only parts that this host is set up to run are judged.
    """
    return [
        *_web(deep=deep),
        *_database(deep=deep),
        *_log(deep=deep),
        *_witness(),
        *_queue(),
        *_lanes(),
        *_loops(),
        *_bucket(deep=deep),
        *_store(),
        _sqlite(),
        *_user_namespaces(),
        *host_findings.hosts(),
        *_unclear(),
        *_passkeys(),
        *_break_glass(),
        *_backups(),
        *_drivers(),
        *(upstream_proxy.findings() if deep else []),
    ]


def _web(*, deep: bool) -> list[Finding]:
    if not parts.run_here("web"):
        return []
    return [_call_web() if deep else Finding("web", True, "Running.")]


def _call_web() -> Finding:
    host = to_call(settings.HANDRAIL_HOST)
    asked = http.client.HTTPConnection(host, settings.HANDRAIL_PORT, timeout=10)
    try:
        asked.request("GET", "/healthz", headers={"Host": "127.0.0.1"})
        status = asked.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return Finding(
            "web",
            False,
            f"No response from {in_url(host)}:{settings.HANDRAIL_PORT} ({error}).",
            "Start it with `make up`; if it runs elsewhere, set HANDRAIL_HOST and HANDRAIL_PORT to its values.",
        )
    finally:
        asked.close()
    return Finding("web", status == 200, f"GET /healthz returned {status}.")


def _database(*, deep: bool) -> list[Finding]:
    """Check the database, and the runner, whose heartbeat is in the database, where this host has one."""
    has_runner = parts.run_here("runner")
    name = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}.get(connection.vendor, connection.vendor)
    try:
        misfit = database.misfit_here()
        pending = [] if misfit else database.pending_migrations()
        damage = database.problems() if deep else []
        runner = [host_findings.runner(deep=deep)] if has_runner else []
    except DatabaseError as error:
        words = f"{name} is not available ({type(error).__name__})."
        fix = "Check DATABASE_URL, and that the database server is running." if name != "SQLite" else ""
        return [
            Finding("database", False, words, fix or "Start Handrail with `make up`: that creates the database."),
            *([Finding("runner", False, "Unknown while the database is not available.")] if has_runner else []),
        ]
    if misfit:
        words, fix = misfit
        found = Finding("database", False, f"{name}: it {words}", fix)
    elif pending:
        found = Finding("database", False, f"{name}: {len(pending)} pending migrations.", "Restart with `make up`.")
    elif damage:
        fix = "Stop Handrail and restore an hourly copy (docs/operations.md)."
        found = Finding("database", False, f"{name}: damaged: {damage[0]}", fix)
    else:
        found = Finding(
            "database", True, f"{name} is available" + (" and passed its integrity check." if deep else ".")
        )
    return [found, *runner]


def _log(*, deep: bool) -> list[Finding]:
    """Check that nothing can change the log by accident, and that nobody has; all of it only with `deep`."""
    try:
        missing = triggers.missing(connection)
        proofs = [verify_in_time(team, math.inf if deep else RENDER_SECONDS) for team in Team.objects.order_by("slug")]
    except DatabaseError:  # its own finding says so
        return []
    broken = [proof for proof in proofs if not proof.holds]
    if broken:
        where = ", ".join(f"{proof.team.name} at event {proof.seq:,}" for proof in broken)
        fix = "Export the log, and compare it with a checkpoint: `handrail_verify log`, see docs/verifying.md."
        return [Finding("log", False, f"Changed or incomplete: {where}.", fix)]
    if missing:
        fix = "Find out who removed them. A restart puts them back."
        return [Finding("log", False, f"The database lacks what keeps events unchanged: {', '.join(missing)}.", fix)]
    whole = all(proof.is_whole for proof in proofs)
    return [Finding("log", True, "Complete and unchanged." if whole else "Unchanged as far as it was read.")]


def _witness() -> list[Finding]:
    """Report the outside witness of the log's checkpoints, if there is one."""
    if not settings.HANDRAIL_WITNESS_URL:
        return []
    try:
        since = witness.late_since(clock.now())
    except DatabaseError:  # its own finding says so
        return []
    if since:
        words = f"Nothing was time-stamped since {clock.in_utc(since)}. Checkpoints are signed all the same."
        fix = f"See the queue's log for what {settings.HANDRAIL_WITNESS_URL} answers. It is asked again each minute."
        return [Finding("witness", False, words, fix, needed=False)]
    return [Finding("witness", True, "Checkpoints are time-stamped.", needed=False)]


def _bucket(*, deep: bool) -> list[Finding]:
    """Check that the bucket of the snapshots answers, and with `deep` that it keeps what stores rely on."""
    if not settings.HANDRAIL_BUCKET:
        return []
    try:
        team_stores.prove() if deep else team_stores.reach()
    except StoreError as error:
        fix = "Check HANDRAIL_BUCKET, AWS_ENDPOINT_URL and the keys, and that the server runs."
        return [Finding("bucket", False, f"{str(error).rstrip('.')}.", fix)]
    return [Finding("bucket", True, "It keeps what snapshots rely on." if deep else "It answers.")]


def _backups() -> list[Finding]:
    """Report scheduled backups, if there is a plan for them."""
    try:
        plan = BackupPlan.objects.filter(active=True).first()
    except DatabaseError:  # its own finding says so
        return []
    if plan is None:
        return []
    fix = "See the queue's log; `manage.py backup --scheduled` makes one now and says what is wrong."
    if plan.problem:
        return [Finding("backups", False, f"The last one failed: {plan.problem}", fix, needed=False)]
    if since := scheduled_backups.missing_since(plan):
        words = f"No good one since {clock.in_utc(since)}."
        return [Finding("backups", False, words, fix, needed=False)]
    words = f"{plan.words}, made {clock.in_utc(plan.made_at)}." if plan.made_at else "The first one is not due yet."
    return [Finding("backups", True, words, needed=False)]


def _queue() -> list[Finding]:
    return [_queue_here()] if parts.run_here("queue") else []


def _queue_here() -> Finding:
    file = settings.HANDRAIL_RUNTIME / "heartbeat" / "queue"
    try:
        age = time.time() - file.stat().st_mtime
    except OSError:
        words = "No heartbeat yet."
        return Finding("queue", False, words, "Start Handrail with `make up`.", needed=False)
    if age > QUEUE_STALE:
        words = f"No heartbeat for {age:.0f} s. Copies, cleanup and notices are delayed; nothing is lost."
        return Finding(
            "queue", False, words, "It restarts automatically; see the `queue` lines of `make up`.", needed=False
        )
    return Finding("queue", True, f"Running, last heartbeat {max(age, 0):.0f} s ago.", needed=False)


def _lanes() -> list[Finding]:
    """Report each late lane of work behind the scenes with how long its oldest task waits; the others share a row."""
    try:
        waiting = lanes.waiting()
    except DatabaseError:  # its own finding says so
        return []
    late = [lane for lane in lanes.LANES.values() if waiting[lane.name] > lane.patience]
    findings = [_late(lane, waiting[lane.name]) for lane in late]
    if in_time := [lane.name for lane in lanes.LANES.values() if lane not in late]:
        findings.append(Finding("lanes", True, f"No task is late in {', '.join(in_time)}.", needed=False))
    return findings


def _late(lane, seconds: float) -> Finding:
    way = "See the `queue` lines of `make up`. Its other tasks take long, or the queue does not run."
    if lane.name not in settings.HANDRAIL_LANES or not parts.run_here("queue"):
        way = f"Nothing on this host serves it: start `manage.py qcluster -n {lane.name}` on one."
    return Finding(f"lane {lane.name}", False, f"Its oldest task has waited {seconds:.0f} s.", way, needed=False)


def _loops() -> list[Finding]:
    """Report how late the event loops of web and runner on this host were in the last minute."""
    findings = []
    for name, told in loop_watch.of_this_host().items():
        words = f"At most {told['worst_s'] * 1000:.0f} ms late in the last minute."
        if told["steps"]:
            words += f" Steps over {loop_watch.LATE_S:g} s since its start: {told['steps']}."
        ok = told["worst_s"] <= loop_watch.LATE_S
        way = "" if ok else f"The `{name}` lines of `make up` have the stack of what held it: please report it."
        findings.append(Finding(f"event loop of {name}", ok, words, way, needed=False))
    return findings


def _store() -> list[Finding]:
    home = settings.HANDRAIL_HOME
    try:
        with tempfile.TemporaryFile(dir=home) as probe:
            probe.write(b"handrail")
            probe.flush()
        free = shutil.disk_usage(home).free
    except OSError as error:
        fix = f"Make {home} writable for the user that runs Handrail."
        return [Finding("store", False, f"HANDRAIL_HOME is not writable: {error.strerror}.", fix)]
    if wrong := _wrong_stores():
        return wrong
    words = f"Writable, {free / 10**9:.1f} GB free."
    if free < settings.HANDRAIL_RESERVE_BYTES:
        words += f" The reserve is {settings.HANDRAIL_RESERVE_BYTES / 10**9:.1f} GB: nothing new is created."
    if free < DISK_COMFORT:
        fix = "Free some disk space: actions whose snapshot fails do not run."
        needed = min(DISK_NEEDED, settings.HANDRAIL_RESERVE_BYTES)
        if free < needed:
            words += f" Less than {needed / 10**9:.1f} GB is not enough for snapshots."
        return [Finding("store", free >= needed, words, fix)]
    return [Finding("store", True, words)]


def _wrong_stores() -> list[Finding]:
    """Report snapshot stores that are missing or do not match the database."""
    try:
        found = stores.troubles()
    except DatabaseError:  # reported by _database
        return []
    return [Finding("store", False, f"Team {team.slug}: {words}.", stores.WAY_OUT) for team, words in found]


def _sqlite() -> Finding:
    if words := database.sqlite_bug():
        return Finding("SQLite library", False, words, database.SQLITE_WAY_OUT, needed=False)
    return Finding("SQLite library", True, f"{sqlite3.sqlite_version}.", needed=False)


# sysctl: (the value that forbids unprivileged user namespaces, how to change it)
_FORBIDS = {
    "kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "On Ubuntu 24.04 and later: `sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, "
        "or an AppArmor profile for bwrap.",
    ),
    "kernel/unprivileged_userns_clone": ("0", "`sudo sysctl -w kernel.unprivileged_userns_clone=1`"),
    "user/max_user_namespaces": ("0", "`sudo sysctl -w user.max_user_namespaces=15000`"),
}


def _user_namespaces() -> list[Finding]:
    return [_namespaces_of_users()] if parts.run_here("runner") else []


def _namespaces_of_users() -> Finding:
    """Check that the sandbox driver may create user namespaces; root needs no permission."""
    for name, (forbidden, fix) in _FORBIDS.items():
        try:
            value = Path("/proc/sys", name).read_text().strip()
        except OSError:
            continue  # this kernel does not have this sysctl
        if value == forbidden and (os.geteuid() != 0 or name.startswith("user/")):
            return Finding("user namespaces", False, f"{name.replace('/', '.')} is {value}.", fix, needed=False)
    return Finding("user namespaces", True, "Allowed.", needed=False)


def _unclear() -> list[Finding]:
    """Report processes on each host that belong to no known workspace; Handrail leaves them alone."""
    try:
        hosts = [runner for runner in Runner.objects.members().order_by("host") if runner.unclear]
    except DatabaseError:
        return []
    fix = "Check what it does, and end it yourself if it is not needed. Handrail leaves it alone."
    return [
        Finding(f"orphans on {runner.host}", False, " ".join(runner.unclear), fix, needed=False) for runner in hosts
    ]


def _drivers(*, brief: bool = False) -> list[Finding]:
    return host_findings.drivers(brief=brief) if parts.run_here("runner") else []


def _passkeys() -> list[Finding]:
    """Report passkeys that were made for another HANDRAIL_PUBLIC_URL."""
    try:
        words = passkeys.warning()
    except DatabaseError:
        return []
    return [Finding("passkeys", False, words, passkeys.WAY_OUT, needed=False)] if words else []


def _break_glass() -> list[Finding]:
    """Report that passwords are off, and the account of emergencies could not sign in."""
    try:
        provider = sso.in_force()
        words = sso.why_not_break_glass(sso.break_glass_person()) if provider and provider.break_glass else ""
    except DatabaseError:
        return []
    way = "Name another one, or give this one a password: `manage.py sign_in_url NAME` signs in until then."
    return [Finding("single sign-on", False, words, way, needed=False)] if words else []
