"""All measures of a team and a period, as the page, the API and the CSV file show them."""

from dashboard.site.measures import approvals, resources
from dashboard.site.measures.period import Period
from dashboard.site.measures.persistence import persistence
from workspaces.models import Prices


def measure(team, period: Period, caller) -> dict:
    """Return every figure. Those of other people are left out for callers who may not see them."""
    everybody = caller.can("read_measures_of_people", team)
    calls = approvals.calls(team.pk, period)
    awake, egress = resources.awake(team.pk, period), resources.egress(team.pk, period)
    tokens = resources.tokens(team.pk, period)
    cost = resources.cost(
        Prices.objects.filter(team=team).first() or Prices(team=team),
        hours=awake["hours"],
        egress_bytes=egress["sent"] + egress["received"],
        input_tokens=tokens["input"],
        output_tokens=tokens["output"],
    )
    days = [_day(day, calls, awake, egress) for day in period.days]
    return {
        "team": team.slug,
        "from": period.first,
        "to": period.last,
        "persistence": persistence(team.pk, period),
        "calls": {name: value for name, value in calls.items() if name != "by_day"},
        "latency": approvals.latency(team.pk, period, of_person=None if everybody else caller.user),
        "awake": {name: round(value, 3) for name, value in awake.items() if name != "by_day"},
        "disk": resources.disk(team.pk, period),
        "egress": {name: value for name, value in egress.items() if name != "by_day"},
        "tokens": tokens,
        "cost": cost,
        "days": days,
    }


def _day(day, calls: dict, awake: dict, egress: dict) -> dict:
    counted = calls["by_day"].get(day, {})
    return {
        "day": day,
        **{name: counted.get(name, 0) for name in ("let_run", "asked", "forbidden", "denied")},
        "awake_hours": round(awake["by_day"].get(day, 0.0), 3),
        "egress_bytes": egress["by_day"].get(day, 0),
    }
