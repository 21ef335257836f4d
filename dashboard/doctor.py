"""What works, what does not, and what to do about it: for /readyz, the Status page and `manage.py doctor`."""

import http.client
import os
import shutil
import sqlite3
import tempfile
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError, connection

from dashboard import clock, database
from workspaces.models import Runner

STALE = timedelta(seconds=30)  # a runner that has not been heard of for this long does not work
QUEUE_STALE = 120.0  # seconds; its heartbeat is asked for every 30
DISK_NEEDED, DISK_COMFORT = 200 * 10**6, 2 * 10**9  # bytes


@dataclass(frozen=True)
class Finding:
    """One part: whether it works, in words, and the way out where it does not."""

    part: str
    ok: bool
    words: str
    what_to_do: str = ""
    needed: bool = True  # without it Handrail does not work


def needed_to_work() -> list[Finding]:
    """The quick look of /readyz, from inside the web server. The words hold nothing that strangers may not know."""
    return [Finding("web", True, "answers"), *_database(deep=False), *_store()]


def examine(*, deep: bool) -> list[Finding]:
    """Everything. `deep` also checks the database page by page and asks the web server from outside."""
    web = _web() if deep else Finding("web", True, "answers")
    return [web, *_database(deep=deep), _queue(), *_store(), _sqlite(), _user_namespaces(), *_unclear(), *_drivers()]


def _web() -> Finding:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.HANDRAIL_HOST, settings.HANDRAIL_HOST)
    asked = http.client.HTTPConnection(host, settings.HANDRAIL_PORT, timeout=10)
    try:
        asked.request("GET", "/healthz", headers={"Host": "127.0.0.1"})
        status = asked.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return Finding(
            "web",
            False,
            f"Nothing answers at {host}:{settings.HANDRAIL_PORT} ({error}).",
            "Start it with `make up`; if it runs elsewhere, set HANDRAIL_HOST and HANDRAIL_PORT as it has them.",
        )
    finally:
        asked.close()
    return Finding("web", status == 200, f"GET /healthz answered {status}.")


def _database(*, deep: bool) -> list[Finding]:
    """The database, and the runner, which is only known through it."""
    name = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}.get(connection.vendor, connection.vendor)
    try:
        newer, pending = database.newer_than_the_code(), database.pending_migrations()
        damage = database.problems() if deep else []
        runner = _runner()
    except DatabaseError as error:
        words = f"{name} does not answer ({type(error).__name__})."
        way_out = "Look at DATABASE_URL, and whether the database server runs." if name != "SQLite" else ""
        return [
            Finding("database", False, words, way_out or "Start Handrail with `make up`: that makes the database."),
            Finding("runner", False, "Not known while the database does not answer."),
        ]
    if newer:
        way_out = "Start the newer version, or put back the copy from before the upgrade (docs/operations.md)."
        found = Finding("database", False, f"{name}: used by a newer Handrail ({', '.join(newer)}).", way_out)
    elif pending:
        found = Finding("database", False, f"{name}: {len(pending)} migrations are missing.", "Restart with `make up`.")
    elif damage:
        way_out = "Stop Handrail and put back an hourly copy (docs/operations.md)."
        found = Finding("database", False, f"{name}: damaged: {damage[0]}", way_out)
    else:
        found = Finding("database", True, f"{name} answers" + (", and its check found nothing." if deep else "."))
    return [found, runner]


def _runner() -> Finding:
    """At least one runner lives. A second host that fell silent is told by its own line in the words."""
    now = clock.now()
    runners = list(Runner.objects.filter(heartbeat_at__isnull=False).order_by("-heartbeat_at"))
    if not runners:
        return Finding("runner", False, "No runner has started yet.", "Start Handrail with `make up`.")
    alive = [runner for runner in runners if now - runner.heartbeat_at < STALE]
    age = round((now - runners[0].heartbeat_at).total_seconds())
    if not alive:
        return Finding(
            "runner",
            False,
            f"No sign of life for {age} s. Workspaces stay as they are; nothing new starts.",
            "Look at the lines of `make up` that begin with runner; it is restarted by itself.",
        )
    others = len(runners) - len(alive)
    return Finding(
        "runner", True, f"Lives, last sign {age} s ago." + (f" {others} other hosts are silent." if others else "")
    )


def _queue() -> Finding:
    file = settings.HANDRAIL_RUNTIME / "heartbeat" / "queue"
    try:
        age, allowance = time.time() - file.stat().st_mtime, float(file.read_text() or 0)
    except (OSError, ValueError):
        words = "No sign of life yet."
        return Finding("queue", False, words, "Start Handrail with `make up`.", needed=False)
    if age - allowance > QUEUE_STALE:
        words = f"No sign of life for {age:.0f} s. Copies, cleaning and notices wait; nothing is lost."
        return Finding("queue", False, words, "It is restarted by itself; see the lines of `make up`.", needed=False)
    return Finding("queue", True, f"Lives, last sign {max(age, 0):.0f} s ago.", needed=False)


def _store() -> list[Finding]:
    home = settings.HANDRAIL_HOME
    try:
        with tempfile.TemporaryFile(dir=home) as probe:
            probe.write(b"handrail")
            probe.flush()
        free = shutil.disk_usage(home).free
    except OSError as error:
        way_out = f"Make {home} writable for the user that runs Handrail."
        return [Finding("store", False, f"HANDRAIL_HOME cannot be written: {error.strerror}.", way_out)]
    words = f"Writable, {free / 10**9:.1f} GB free."
    if free < settings.HANDRAIL_RESERVE_BYTES:
        words += f" That is below the reserve of {settings.HANDRAIL_RESERVE_BYTES / 10**9:.1f} GB: nothing new is made."
    if free < DISK_COMFORT:
        way_out = "Free some space: snapshots need it, and actions whose snapshot cannot be kept do not run."
        return [Finding("store", free >= DISK_NEEDED, words, way_out)]
    return [Finding("store", True, words)]


def _sqlite() -> Finding:
    version = sqlite3.sqlite_version
    if connection.vendor != "sqlite" or sqlite3.sqlite_version_info >= (3, 51, 3):
        return Finding("SQLite library", True, version, needed=False)
    return Finding(
        "SQLite library",
        False,
        f"{version} has a rare fault (mended in 3.51.3) that can damage a database which several processes write.",
        "Handrail checks at each start and copies every hour. For a team, set DATABASE_URL to a PostgreSQL.",
        needed=False,
    )


# sysctl: the value that forbids unprivileged user namespaces, and the way out
_FORBIDS = {
    "kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "On Ubuntu 24.04 and later: `sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, "
        "or an AppArmor profile for bwrap.",
    ),
    "kernel/unprivileged_userns_clone": ("0", "`sudo sysctl -w kernel.unprivileged_userns_clone=1`"),
    "user/max_user_namespaces": ("0", "`sudo sysctl -w user.max_user_namespaces=15000`"),
}


def _user_namespaces() -> Finding:
    """What the sandbox driver stands on; root needs no permission."""
    for name, (forbidden, way_out) in _FORBIDS.items():
        try:
            value = Path("/proc/sys", name).read_text().strip()
        except OSError:
            continue  # this kernel has no such switch
        if value == forbidden and (os.geteuid() != 0 or name.startswith("user/")):
            return Finding("user namespaces", False, f"{name.replace('/', '.')} is {value}.", way_out, needed=False)
    return Finding("user namespaces", True, "Allowed.", needed=False)


def _unclear() -> list[Finding]:
    """What runs on a host and nobody can tell whose it is: left alone, and told."""
    try:
        hosts = [runner for runner in Runner.objects.order_by("host") if runner.unclear]
    except DatabaseError:
        return []
    way_out = "Look at what it does; if it is nobody's, end it by hand. It is neither adopted nor replaced."
    return [
        Finding(f"orphans on {runner.host}", False, " ".join(runner.unclear), way_out, needed=False) for runner in hosts
    ]


def _drivers() -> list[Finding]:
    """Each driver as the newest runner found it; without a runner nothing is known."""
    try:
        runner = Runner.objects.filter(heartbeat_at__isnull=False).order_by("-heartbeat_at").first()
    except DatabaseError:
        runner = None
    findings = []
    for name, probe in sorted((runner.capabilities if runner else {}).items()):
        notes = " ".join(probe.get("notes", []))
        if probe.get("available"):
            words = f"Available, isolation: {probe.get('isolation')}. {notes}".strip()
            findings.append(Finding(f"driver {name}", True, words, needed=False))
        else:
            words = f"{probe.get('reason') or 'Not available.'} {notes}".strip()
            findings.append(Finding(f"driver {name}", False, words, probe.get("what_to_do", ""), needed=False))
    return findings
