"""Measures as CSV: one row for each figure, with its group and unit."""

import csv
from io import StringIO

HEADER = ["from", "to", "group", "name", "measure", "value"]


def write(found: dict) -> str:
    """Return the figures that `figures.measure` found; an empty value means that nothing was measured."""
    text = StringIO()
    writer = csv.writer(text)
    writer.writerow(HEADER)
    for group, name, measure, value in rows(found):
        given = [found["from"], found["to"], group, harmless(name), measure, "" if value is None else value]
        writer.writerow(given)
    return text.getvalue()


def rows(found: dict):
    """Yield (group, name, measure, value) of every figure; `name` is a rule, tier, person, model or day, or ""."""
    for group in ("persistence", "calls", "awake", "disk", "egress", "tokens", "cost"):
        for measure, value in found[group].items():
            if not isinstance(value, (dict, list)):
                yield group, "", measure, value
    yield from _each("first_useful", "", found["persistence"]["first_useful"])
    yield from _each("latency", "", found["latency"]["all"])
    for group in ("by_tier", "by_person"):
        for name, summary in found["latency"][group].items():
            yield from _each(f"latency {group}", name, summary)
    for row in found["calls"]["by_rule"]:
        yield from _each("calls by_rule", row["rule"], row, "rule")
    for row in found["tokens"]["by_model"]:
        yield from _each("tokens by_model", row["model"], row, "model")
    for row in found["days"]:
        yield from _each("days", row["day"].isoformat(), row, "day")


def _each(group: str, name: str, named: dict, left_out: str = ""):
    for measure, value in named.items():
        if measure != left_out:
            yield group, name, measure, value


def harmless(name: str) -> str:
    """Keep a spreadsheet from running a name of an agent or rule as a formula."""
    return f"'{name}" if name[:1] in ("=", "+", "-", "@", "\t", "\r") else name
