"""`python -m bench.pages [--json] [--quick]`: server time of the pages people keep open, in a team with much in it.

20,000 actions and 200 workspaces are made in a scratch database; then each page is asked for again and again, in one
process and through the whole stack of middleware and templates, but without a socket between.
"""

import argparse
import json
import os
import statistics
import tempfile
import time


def main():
    parser = argparse.ArgumentParser(prog="python -m bench.pages", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--quick", action="store_true", help="2,000 actions, 40 workspaces, 10 rounds")
    options = parser.parse_args()
    actions, workspaces, rounds = (2_000, 40, 10) if options.quick else (20_000, 200, 40)
    with tempfile.TemporaryDirectory(prefix="handrail-bench-") as home:
        os.environ.update(HANDRAIL_HOME=home, HANDRAIL_RUNTIME=f"{home}/run", HANDRAIL_DEBUG="1")
        os.environ["DJANGO_SETTINGS_MODULE"] = "dashboard.settings"
        for name in ("DATABASE_URL", "HANDRAIL_PUBLIC_URL"):
            os.environ.pop(name, None)
        os.mkdir(f"{home}/staticfiles")
        figures = measure(actions, workspaces, rounds)
    if options.json:
        print(json.dumps({"actions": actions, "workspaces": workspaces, "rounds": rounds, "pages": figures}, indent=1))
        return
    print(f"{actions:,} actions, {workspaces} workspaces, {rounds} rounds; milliseconds of server time")
    print(f"{'page':<26}{'p50':>8}{'p95':>8}{'queries':>9}{'kB':>7}")
    for name, found in figures.items():
        print(f"{name:<26}{found['p50_ms']:>8.1f}{found['p95_ms']:>8.1f}{found['queries']:>9}{found['kb']:>7.0f}")


def measure(actions: int, workspaces: int, rounds: int) -> dict:
    """{page: {p50_ms, p95_ms, queries, kb}} on a database made here."""
    import django  # after the environment is set: settings read it when they load

    django.setup()
    import logging

    from django.conf import settings
    from django.core.management import call_command
    from django.test import Client

    from bench.pages.rows import make

    logging.disable(logging.WARNING)
    settings.DEBUG = False
    call_command("migrate", verbosity=0)
    person, place = make(actions=actions, workspaces=workspaces)
    client = Client(headers={"host": "127.0.0.1"})
    client.force_login(person)
    here = f"/w/bench/{place.key}/"
    pages = {
        "Desk": "/",
        "Approvals": "/waiting/",
        "History": "/actions/",
        "History, denied": "/actions/?outcome=denied",
        "Workspaces": "/workspaces/",
        "Workspaces, checks failed": "/workspaces/?state=checks",
        "Workspace": here,
        "Workspace, commands": f"{here}checks/",
        "Workspace, snapshots": f"{here}snapshots/",
        "Environments": "/environments/",
        "Log": "/log/",
        "Log, one person": "/log/?actor=agent+7",
    }
    return {name: _timed(client, address, rounds) for name, address in pages.items()}


def _timed(client, address: str, rounds: int) -> dict:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    for _ in range(2):
        response = client.get(address)
        assert response.status_code == 200, (address, response.status_code)
    took = []
    for _ in range(rounds):
        started = time.perf_counter()
        client.get(address)
        took.append((time.perf_counter() - started) * 1000)
    with CaptureQueriesContext(connection) as queries:
        client.get(address)
    cuts = statistics.quantiles(took, n=20, method="inclusive")
    return {"p50_ms": cuts[9], "p95_ms": cuts[18], "queries": len(queries), "kb": len(response.content) / 1000}


if __name__ == "__main__":
    main()
