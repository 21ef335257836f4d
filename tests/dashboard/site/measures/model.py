"""The measures computed again from the plain list of what happened, without the database and the product's code."""

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta

from .scenario import NOW


def nearest(values: list[float], hundredths: int):
    """The smallest value that at least so many of a hundred do not exceed."""
    for value in sorted(values):
        if sum(1 for other in values if other <= value) * 100 >= hundredths * len(values):
            return round(value, 3)
    return None


def summary(values: list[float]) -> dict:
    return {"count": len(values), "p50_s": nearest(values, 50), "p95_s": nearest(values, 95)}


def expected(events, first, last) -> dict:
    since = datetime(first.year, first.month, first.day, tzinfo=UTC)
    until = datetime(last.year, last.month, last.day, tzinfo=UTC) + timedelta(days=1)
    calls = [e for e in events if e["is"] == "call"]
    return {
        "persistence": persistence([e for e in events if e["is"] == "run"], since, until),
        "calls": counted([e for e in calls if since <= e["at"] < until]),
        "latency": latency([e for e in calls if e["answer_at"] and since <= e["answer_at"] < until]),
        "hours": hours([e for e in events if e["is"] == "run"], since, until),
        "egress": egress([e for e in events if e["is"] == "egress"], first, last),
        "tokens": tokens([e for e in calls if e["usage"] and since <= e["at"] < until]),
    }


def persistence(runs, since, until) -> dict:
    all_, ready, cold, avoided, useful = 0, 0, 0, 0.0, []
    last_setup: dict = {}
    seen = set()
    for run in sorted(runs, key=lambda run: run["at"]):
        place = run["place"]
        if place in seen and since <= run["at"] < until and (run["ready"] or run["end"]):
            all_ += 1
            if run["ready"]:
                ready += 1
                cold += run["setup"] is not None
                if run["setup"] is None:
                    avoided += last_setup.get(place, 0)
                if run["useful"]:
                    useful.append((run["useful"] - run["at"]).total_seconds())
        seen.add(place)
        if run["setup"] is not None:
            last_setup[place] = run["setup"]
    return {
        "resumes": all_,
        "resumes_ready": ready,
        "resume_success": round(ready / all_, 4) if all_ else None,
        "setup_minutes_avoided": round(avoided / 60, 2),
        "cold_rebuilds": cold,
        "first_useful": summary(useful),
    }


def kind(call) -> str:
    if call["tier"] == "forbidden":
        return "forbidden"
    return "let_run" if call["tier"] in ("low", "medium") or call["by_grant"] else "asked"


def counted(calls) -> dict:
    rules, days, total = defaultdict(Counter), defaultdict(Counter), Counter()
    for call in calls:
        for counter in (rules[call["rule"]], days[call["at"].date()], total):
            counter[kind(call)] += 1
            counter["denied"] += kind(call) == "asked" and call["status"] == "denied"
    return {"total": total, "rules": rules, "days": days}


def latency(answered) -> dict:
    took = [(e["tier"], e["person"], (e["answer_at"] - e["at"]).total_seconds()) for e in answered]
    return {
        "all": summary([s for _, _, s in took]),
        "by_tier": {t: summary([s for tier, _, s in took if tier == t]) for t in {tier for tier, _, _ in took}},
        "by_person": {p: summary([s for _, who, s in took if who == p]) for p in {who for _, who, _ in took}},
    }


def hours(runs, since, until) -> dict:
    """The overlap of each run with each day."""
    days, processors = defaultdict(float), 0.0
    for run in runs:
        end = min(run["end"] or NOW, NOW, until)
        day = since
        while day < until:
            overlap = (min(end, day + timedelta(days=1)) - max(run["at"], day)).total_seconds() / 3600
            if overlap > 0:
                days[day.date()] += overlap
                processors += overlap * run["place"]  # the place's number is its limit
            day += timedelta(days=1)
    return {"days": days, "processors": processors}


def egress(rows, first, last) -> dict:
    inside = [row for row in rows if first <= (NOW - timedelta(days=row["day"])).date() <= last]
    return {"sent": sum(row["sent"] for row in inside), "received": sum(row["received"] for row in inside)}


def tokens(calls) -> dict:
    models = defaultdict(lambda: [0, 0])
    for call in calls:
        models[call["usage"]["model"]][0] += call["usage"]["input"]
        models[call["usage"]["model"]][1] += call["usage"]["output"]
    return {name: tuple(both) for name, both in models.items()}
