"""What workspaces and models use: hours awake, reserved processors and memory, disk, network and tokens."""

from collections import defaultdict
from datetime import timedelta

from django.db.models import Sum

from approvals.models import ModelCall, ModelUsage
from dashboard.site.measures.period import Period
from workspaces.models import EgressDay, Environment, Prices, Run, Snapshot, Workspace

HOUR = 3600
GB = 10**9
DAY = timedelta(days=1)


def awake(team_id, period: Period) -> dict:
    """Return the hours in which workspaces were up, by day and in all, and the processors and memory reserved for them.

    Connected folders are left out: they are always up and cost nothing.
    """
    days, by_environment = defaultdict(float), defaultdict(float)
    for environment, begin, end in Run.objects.spans(team_id, period.since, period.until):
        by_environment[environment] += (end - begin).total_seconds() / HOUR
        for day, hours in _by_day(begin, end):
            days[day] += hours
    limits = dict(Environment.objects.filter(pk__in=by_environment).values_list("pk", "limits"))
    return {
        "hours": sum(by_environment.values()),
        "processor_hours": sum(hours * limits[pk].get("cpus", 0) for pk, hours in by_environment.items()),
        "memory_gb_hours": sum(hours * limits[pk].get("memory_bytes", 0) / GB for pk, hours in by_environment.items()),
        "by_day": days,
    }


def _by_day(begin, end):
    """Yield (day, hours) of the days in UTC that the time from `begin` to `end` touches."""
    while begin < end:
        midnight = begin.replace(hour=0, minute=0, second=0, microsecond=0) + DAY
        part = min(end, midnight)
        yield begin.date(), (part - begin).total_seconds() / HOUR
        begin = part


def disk(team_id, period: Period) -> dict:
    """Return the size of all newest snapshots now, and what the snapshots of the period added to the store."""
    kept = Workspace.objects.kept().filter(team=team_id).aggregate(bytes=Sum("head__bytes"))
    taken = Snapshot.objects.filter(
        workspace__team=team_id, created_at__gte=period.since, created_at__lt=period.until
    ).aggregate(bytes=Sum("added_bytes"))
    return {"workspace_bytes": kept["bytes"] or 0, "snapshot_bytes_added": taken["bytes"] or 0}


def egress(team_id, period: Period) -> dict:
    days = EgressDay.objects.filter(workspace__team=team_id, day__gte=period.first, day__lte=period.last)
    rows = days.values("day").annotate(out=Sum("sent"), into=Sum("received")).values_list("day", "out", "into")
    found = {day: (sent, received) for day, sent, received in rows}
    return {
        "sent": sum(sent for sent, _ in found.values()),
        "received": sum(received for _, received in found.values()),
        "by_day": {day: sum(both) for day, both in found.items()},
    }


def tokens(team_id, period: Period) -> dict:
    """Return the tokens that agents reported with their calls, and those of started agents at the model relay."""
    within = {"at__gte": period.since, "at__lt": period.until}
    reported = ModelUsage.objects.filter(action__team=team_id, **within)
    relayed = ModelCall.objects.filter(run__team=team_id, **within)
    used = defaultdict(lambda: [0, 0])
    for rows, names in ((reported, ("input_tokens", "output_tokens")), (relayed, ("tokens_in", "tokens_out"))):
        sums = rows.values("model").annotate(read=Sum(names[0]), wrote=Sum(names[1])).order_by()
        for model, read, wrote in sums.values_list("model", "read", "wrote"):
            used[model][0] += read
            used[model][1] += wrote
    by_model = [{"model": model, "input": read, "output": wrote} for model, (read, wrote) in sorted(used.items())]
    return {
        "input": sum(row["input"] for row in by_model),
        "output": sum(row["output"] for row in by_model),
        "by_model": by_model,
    }


def cost(prices: Prices, *, hours: float, egress_bytes: int, input_tokens: int, output_tokens: int) -> dict:
    """Return {currency, awake, egress, tokens, total} at these prices."""
    million = 10**6
    parts = {
        "awake": hours * float(prices.awake_hour),
        "egress": egress_bytes / GB * float(prices.egress_gb),
        "tokens": (input_tokens * float(prices.input_mtok) + output_tokens * float(prices.output_mtok)) / million,
    }
    rounded = {name: round(value, 2) for name, value in parts.items()}
    return {"currency": prices.currency, **rounded, "total": round(sum(parts.values()), 2)}
