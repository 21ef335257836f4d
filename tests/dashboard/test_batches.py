"""Many rows are read a part at a time, and whoever handles one may write."""

import importlib.util

import pytest
from django.db import connection

from dashboard.database.batches import in_batches
from dashboard.models import Agent, Team
from tests.support import CHECKOUT
from tests.support.connections import elsewhere


@pytest.fixture
def agents(team):
    return Agent.objects.bulk_create(Agent(team=team, name=f"a{number:04}") for number in range(12))


@pytest.mark.django_db
@pytest.mark.parametrize("size", [1, 5, 12, 500])
def test_each_row_comes_once_and_in_order(agents, size):
    assert [agent.name for agent in in_batches(Agent.objects.order_by("name"), size)] == [one.name for one in agents]
    descending = Agent.objects.order_by("-name").values_list("name", "team__slug")
    assert list(in_batches(descending, size)) == [(one.name, "payments") for one in reversed(agents)]


@pytest.mark.django_db
def test_a_row_that_is_gone_when_its_turn_comes_is_left_out(agents):
    met = []
    for agent in in_batches(Agent.objects.order_by("name"), 5):
        met.append(agent.name)
        if agent.name == "a0002":
            Agent.objects.filter(name__in=["a0003", "a0007"]).delete()
    assert "a0003" in met  # it was read with the first five
    assert "a0007" not in met
    assert len(met) == 11


@pytest.mark.django_db(transaction=True)
def test_a_handler_may_write_a_row_that_others_have_written(team, agents):
    connection.close()  # tests may have left a cursor
    for number, agent in enumerate(in_batches(Agent.objects.order_by("name"), 2)):
        elsewhere(lambda number=number: Team.objects.filter(pk=team.pk).update(name=f"Payments {number}"))
        Agent.objects.filter(pk=agent.pk).update(name=f"{agent.name}-seen")
    assert Agent.objects.filter(name__endswith="-seen").count() == 12


def checked(text: str) -> list[str]:
    spec = importlib.util.spec_from_file_location("database_calls", CHECKOUT / "deploy" / "database_calls.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.faults(text, "approvals/x.py")


@pytest.mark.parametrize(
    ("line", "is_refused"),
    [
        ("for row in Team.objects.all().iterator(): pass", True),
        ("for row in rows.iterator(chunk_size=500): pass", True),
        ("found = [row async for row in rows.aiterator()]", True),
        ("for row in in_batches(rows): pass", False),
        ("for row in rows: pass", False),
    ],
)
def test_lint_finds_a_cursor_that_stays_open(line, is_refused):
    assert bool(checked(f"async def read(rows):\n    {line}")) is is_refused
