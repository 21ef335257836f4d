"""Each measure is what an independent model computes from the same events, for several teams' months and periods."""

from datetime import date

import pytest

from dashboard.database import clock
from dashboard.people.access import caller_of
from dashboard.site.measures import figures
from dashboard.site.measures.period import Period
from workspaces.models import Prices

from .model import expected
from .scenario import NOW, happened, write

PERIODS = [(date(2026, 3, 1), date(2026, 3, 20)), (date(2026, 1, 1), date(2026, 2, 11)), (date(2026, 3, 20),) * 2]
NAMES = ("let_run", "asked", "forbidden", "denied")


@pytest.fixture(autouse=True)
def now():
    """Runs that have not ended are up until NOW."""
    with clock.frozen_at(NOW):
        yield


@pytest.fixture(params=range(4))
def events(request, team, bob, lena):
    found = happened(request.param)
    write(team, found)
    return found


def each_of(latency: dict) -> dict:
    """{(of what, field): figure}"""
    groups = {"all": latency["all"], **latency["by_tier"], **{f"by {n}": of for n, of in latency["by_person"].items()}}
    return {(name, field): figure for name, group in groups.items() for field, figure in group.items()}


@pytest.mark.parametrize("days", PERIODS, ids=["month", "before", "today"])
def test_every_figure_agrees_with_the_model(events, team, lena, days):
    found, model = figures.measure(team, Period(*days), caller_of(lena)), expected(events, *days)
    assert found["persistence"] == model["persistence"]
    assert {name: found["calls"][name] for name in NAMES} == {name: model["calls"]["total"][name] for name in NAMES}
    by_rule = {row["rule"]: {name: row[name] for name in NAMES} for row in found["calls"]["by_rule"]}
    assert by_rule == {rule: {n: counts[n] for n in NAMES} for rule, counts in model["calls"]["rules"].items()}
    # SQLite cuts times to milliseconds before it subtracts them.
    assert each_of(found["latency"]) == pytest.approx(each_of(model["latency"]), abs=0.0015)
    assert found["egress"] == model["egress"]
    tokens = {row["model"]: (row["input"], row["output"]) for row in found["tokens"]["by_model"]}
    assert tokens == model["tokens"]
    for row in found["days"]:
        counts, hours = model["calls"]["days"][row["day"]], model["hours"]["days"][row["day"]]
        assert {name: row[name] for name in NAMES} == {name: counts[name] for name in NAMES}
        assert row["awake_hours"] == pytest.approx(hours, abs=0.001)
    assert found["awake"]["hours"] == pytest.approx(sum(model["hours"]["days"].values()), abs=0.001)
    assert found["awake"]["processor_hours"] == pytest.approx(model["hours"]["processors"], abs=0.001)


def test_the_cost_is_the_figures_times_the_prices(events, team, lena):
    Prices.objects.create(team=team, awake_hour="0.5", egress_gb="2", input_mtok="3", output_mtok="15")
    found, model = (
        figures.measure(team, Period(*PERIODS[0]), caller_of(lena)),
        expected(events, *PERIODS[0]),
    )
    read = sum(both[0] for both in model["tokens"].values())
    wrote = sum(both[1] for both in model["tokens"].values())
    parts = {
        "awake": sum(model["hours"]["days"].values()) * 0.5,
        "egress": (model["egress"]["sent"] + model["egress"]["received"]) / 1e9 * 2,
        "tokens": read / 1e6 * 3 + wrote / 1e6 * 15,
    }
    assert {name: found["cost"][name] for name in parts} == pytest.approx(parts, abs=0.006)
    assert found["cost"]["total"] == pytest.approx(sum(parts.values()), abs=0.006)


def test_the_figures_of_others_are_for_leads(events, team, lena, bob, vera):
    def people(user):
        return set(figures.measure(team, Period(*PERIODS[1]), caller_of(user))["latency"]["by_person"])

    assert people(lena) == {"bob", "lena"}
    assert people(bob) == {"bob"}
    assert people(vera) == set()


def test_a_team_without_anything_has_figures_too(team, lena, other_team, mallory):
    found = figures.measure(team, Period(*PERIODS[2]), caller_of(lena))
    assert found["persistence"]["resume_success"] is None
    assert found["latency"]["all"] == {"count": 0, "p50_s": None, "p95_s": None}
    assert (found["awake"]["hours"], found["cost"]["total"]) == (0, 0)


def test_another_team_is_not_counted(events, other_team, mallory):
    found = figures.measure(other_team, Period(*PERIODS[0]), caller_of(mallory))
    assert (found["calls"]["asked"], found["awake"]["hours"], found["egress"]["sent"]) == (0, 0, 0)
    assert (found["disk"]["workspace_bytes"], found["tokens"]["by_model"]) == (0, [])
