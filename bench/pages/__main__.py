"""`python -m bench.pages [--json] [--quick] [--database URL]`: server time of each page in a team with much in it.

100,000 actions, 2,000 workspaces and 20,000 snapshots are made in a scratch database: SQLite, or an empty one of a
PostgreSQL server that the URL names. Then each page is asked for again and again, in one process and through the whole
stack of middleware and templates, but without a socket between. A page whose 95th percentile is above 150 ms is marked.
`cpu` is the 95th percentile of this process's own processor time, which other work on the machine disturbs less;
PostgreSQL's is not in it.
"""

import argparse
import gc
import json
import os
import statistics
import tempfile
import time
from importlib import import_module
from urllib.parse import urlsplit

SLOW_MS = 150


def main():
    parser = argparse.ArgumentParser(prog="python -m bench.pages", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--quick", action="store_true", help="2,000 actions, 40 workspaces, 800 snapshots, 10 rounds")
    parser.add_argument("--database", default="", help="postgres://… of an empty database; without it SQLite")
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    amounts = {"actions": 100_000, "workspaces": 2_000, "snapshots": 20_000}
    rounds = options.rounds
    if options.quick:
        amounts, rounds = {"actions": 2_000, "workspaces": 40, "snapshots": 800}, 10
    with tempfile.TemporaryDirectory(prefix="handrail-bench-") as home:
        os.environ.update(HANDRAIL_HOME=home, HANDRAIL_RUNTIME=f"{home}/run", HANDRAIL_DEBUG="1")
        os.environ["DJANGO_SETTINGS_MODULE"] = "dashboard.settings"
        for name in ("DATABASE_URL", "HANDRAIL_PUBLIC_URL"):
            os.environ.pop(name, None)
        if options.database:
            os.environ["DATABASE_URL"] = options.database
        os.mkdir(f"{home}/staticfiles")
        vendor, figures = measure(amounts, rounds)
    if options.json:
        print(json.dumps(amounts | {"database": vendor, "rounds": rounds, "pages": figures}, indent=1))
        return
    made = ", ".join(f"{count:,} {name}" for name, count in amounts.items())
    print(f"{made}, on {vendor}, {rounds} rounds; milliseconds of server time")
    print(f"{'page':<30}{'p50':>8}{'p95':>8}{'cpu':>8}{'queries':>9}{'kB':>7}")
    for name, found in figures.items():
        times = "".join(f"{found[column]:>8.1f}" for column in ("p50_ms", "p95_ms", "cpu_p95_ms"))
        slow = "  slow" if found["p95_ms"] > SLOW_MS else ""
        print(f"{name:<30}{times}{found['queries']:>9}{found['kb']:>7.0f}{slow}")


def measure(amounts: dict, rounds: int) -> tuple[str, dict]:
    """Fill a database; return its kind and {page: {p50_ms, p95_ms, cpu_p95_ms, queries, kb}}."""
    import django  # after the environment is set: settings read it when they load

    django.setup()
    import logging

    from django.conf import settings
    from django.core.management import call_command
    from django.db import connection
    from django.test import Client

    from bench.pages.rows import make

    logging.disable(logging.WARNING)
    settings.DEBUG = False
    call_command("migrate", verbosity=0)
    person, place = make(**amounts)
    connection.cursor().execute("ANALYZE")  # as autovacuum and `PRAGMA optimize` do in time
    gc.collect()
    import_module("dashboard.asgi")  # freezes and collects as web does
    client = Client(headers={"host": urlsplit(settings.HANDRAIL_DESK_URL).netloc})
    client.force_login(person)
    return connection.vendor, {name: _timed(client, address, rounds) for name, address in pages_of(place).items()}


def pages_of(place) -> dict:
    """{name: address} of the measured pages; `place` is the workspace with most rows."""
    from approvals.models import Action, AgentSession

    here = f"/w/bench/{place.key}/"
    waiting, decided = (Action.objects.filter(status=status).first() for status in ("pending", "denied"))
    return {
        "Desk": "/",
        "Approvals": "/waiting/",
        "History": "/actions/",
        "History, denied": "/actions/?outcome=denied",
        "Workspaces": "/workspaces/",
        "Workspaces, checks failed": "/workspaces/?state=checks",
        "Workspaces, last active": "/workspaces/?sort=activity",
        "Workspaces, largest": "/workspaces/?sort=size",
        "Workspaces, filtered": "/workspaces/?owner=bench&agent=agent+7&quiet=3&changed=yes&sort=quiet",
        "Workspaces, a label": "/workspaces/?label=area:area-4",
        "Workspace": here,
        "Workspace, commands": f"{here}checks/",
        "Workspace, snapshots": f"{here}snapshots/",
        "Workspace, network": f"{here}network/",
        "Workspace, terminals": f"{here}terminals/",
        "Workspace, file changes only": f"{here}?only=files",
        "Snapshot": f"{here}snapshots/150/",
        "Card": f"/actions/{waiting.pk}/",
        "Card, decided": f"/actions/{decided.pk}/",
        "Agents": "/agents/",
        "Conversations": "/conversations/",
        "Conversation": f"/conversations/{AgentSession.objects.order_by('-last_at').first().pk}/",
        "Team": "/team/",
        "Policy": "/policy/",
        "Secrets": "/secrets/",
        "Storage": "/storage/",
        "Search": "/search/?q=task-77",
        "Search, a rare word": "/search/?q=nowhere-to-be-found",
        "Environments": "/environments/",
        "Measures": "/measures/",
        "Log": "/log/",
        "Log, one person": "/log/?actor=agent+7",
    }


def _timed(client, address: str, rounds: int) -> dict:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    for _ in range(2):
        response = client.get(address)
        assert response.status_code == 200, (address, response.status_code)
    took, computed = [], []
    for _ in range(rounds):
        started, computing = time.perf_counter(), time.process_time()
        client.get(address)
        took.append((time.perf_counter() - started) * 1000)
        computed.append((time.process_time() - computing) * 1000)
    with CaptureQueriesContext(connection) as queries:
        client.get(address)
    p50, p95 = _quantiles(took)
    told = {"p50_ms": p50, "p95_ms": p95, "cpu_p95_ms": _quantiles(computed)[1]}
    return told | {"queries": len(queries), "kb": len(response.content) / 1000}


def _quantiles(values) -> tuple[float, float]:
    cuts = statistics.quantiles(values, n=20, method="inclusive")
    return cuts[9], cuts[18]


if __name__ == "__main__":
    main()
