"""Sixteen processes of agents and reviewers beside web and runner on SQLite: no locked database, no 5xx."""

import json
import os
import sqlite3
import subprocess
import sys
import uuid
from contextlib import closing

import pytest

from tests.support import CHECKOUT

TRANSACTIONS = int(os.environ.get("HANDRAIL_TEST_TRANSACTIONS", "8"))  # of each process
BESIDE = 5

# They write to the database from outside the web process, as an operator's commands and the queue do.
WRITE_BESIDE = f"""
import json
from dashboard.models import Actor, Event, Team
team, bad, by = Team.objects.get(slug="race"), [], Actor.system("beside")
for number in range({TRANSACTIONS}):
    try:
        Event.objects.record(team, actor=by, verb="test.written", subject=team, data={{"number": number}})
    except Exception as error:
        bad.append(repr(error))
print(json.dumps(bad))
"""


@pytest.fixture
def start(crowded):
    """`start("manage.py", …)`: a process of Python beside the product, ended with the test."""
    started = []

    def begin(*arguments) -> subprocess.Popen:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen([sys.executable, *arguments], cwd=CHECKOUT, env=crowded.environment, **pipes))
        return started[-1]

    yield begin
    for process in started:
        with process:
            process.kill()


def test_sixteen_processes_on_sqlite(crowded, start):
    assert crowded.post("/api/v1/workspaces", crowded.agents[0], {"key": "crowd"}).status == 201
    assert crowded.settled("/api/v1/workspaces/crowd", crowded.agents[0])["state"] == "ready"
    client = ("-m", "tests.approvals.race.client", crowded.url)
    agents = [start(*client, token, "agent", str(TRANSACTIONS)) for token in crowded.agents]
    people = [start(*client, token, "reviewer", str(TRANSACTIONS)) for token in crowded.reviewers]
    beside = [start("manage.py", "shell", "-v", "0", "-c", WRITE_BESIDE) for _ in range(BESIDE)]
    assert len(agents + people + beside) == 16
    for _ in range(3):  # the runner is at work as well
        wish = {"command": f"echo {uuid.uuid4().hex} >> file"}
        assert crowded.post("/api/v1/workspaces/crowd/commands", crowded.agents[0], wish).status == 201
        assert crowded.post("/api/v1/workspaces/crowd/snapshots", crowded.agents[0]).status == 201
    bad = [bad_answers(process) for process in (*agents, *beside, *people)]  # reviewers see the agents out
    assert bad == [[]] * 16
    assert "database is locked" not in crowded.log
    check_database(crowded)


def check_database(product):
    with closing(sqlite3.connect(product.home / "handrail.sqlite3")) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        ask = "SELECT count(*) FROM approvals_action WHERE status = 'pending'"
        assert database.execute(ask).fetchone() == (0,)
        ask = "SELECT seq FROM dashboard_event JOIN dashboard_team ON dashboard_team.id = team_id WHERE slug = 'race'"
        numbers = sorted(number for (number,) in database.execute(ask))
        assert numbers == list(range(1, len(numbers) + 1))


def bad_answers(process) -> list:
    """What a client printed at its end; closing its standard input sends a reviewer home."""
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return json.loads(out)
