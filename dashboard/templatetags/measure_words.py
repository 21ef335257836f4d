"""What the Measures page calls each figure, and how it defines it: {% load measure_words %}."""

from datetime import date
from typing import NamedTuple

from django import template
from django.utils.formats import number_format
from django.utils.translation import gettext, gettext_lazy

from dashboard.text.labels import TIERS

register = template.Library()
GB = 10**9


class Row(NamedTuple):
    """One figure with its definition."""

    label: str
    value: str
    words: str
    unit: str = ""


class Columns(NamedTuple):
    """Figures by day: the names of the columns, and (day, values) of each row."""

    names: list[str]
    rows: list[tuple[date, list]]


@register.filter
def seconds(count: float | None) -> str:
    """Format a duration as 4.2 s, 12 min or 3.5 h; "–" where nothing was measured."""
    if count is None:
        return "–"
    if count < 90:
        return gettext("%(n)s s") % {"n": _number(count)}
    if count < 5400:
        return gettext("%(n)s min") % {"n": _number(count / 60)}
    return gettext("%(n)s h") % {"n": _number(count / 3600)}


def _number(value: float, decimals: int = 1) -> str:
    return number_format(round(value, decimals), decimals if value % 1 else 0, force_grouping=True)


@register.filter
def persistence_rows(found: dict) -> list[Row]:
    success, useful = found["resume_success"], found["first_useful"]
    return [
        Row(
            gettext("Setup avoided"),
            _number(found["setup_minutes_avoided"]),
            gettext(
                "For each resume that kept what setup had made: the time that the workspace's last setup script took."
            ),
            gettext("min"),
        ),
        Row(
            gettext("Resumes that worked"),
            "–" if success is None else f"{_number(success * 100)} %",
            gettext("%(ready)s of %(all)s. Starts of a workspace after its first one that became ready.")
            % {"ready": _number(found["resumes_ready"]), "all": _number(found["resumes"])},
        ),
        Row(
            gettext("Cold rebuilds"),
            _number(found["cold_rebuilds"]),
            gettext("Starts after a workspace's first one for which the setup script had to run again."),
        ),
        Row(
            gettext("First useful action after a resume"),
            seconds(useful["p50_s"]),
            gettext(
                "Median, from the beginning of the start to the end of the first command that succeeded; 95 of 100 "
                "within %(p95)s, over %(count)s resumes."
            )
            % {"p95": seconds(useful["p95_s"]), "count": _number(useful["count"])},
        ),
    ]


@register.filter
def call_rows(found: dict) -> list[Row]:
    calls = sum(found[name] for name in ("let_run", "asked", "forbidden"))
    rate = 100 * found["asked"] / calls if calls else 0
    return [
        Row(gettext("Let run"), _number(found["let_run"]), gettext("Calls that the policy or a grant allowed.")),
        Row(gettext("Asked"), _number(found["asked"]), gettext("Calls about which people were asked.")),
        Row(gettext("Asks per 100 calls"), _number(rate), gettext("The fewer, the less people are in the way.")),
        Row(gettext("Denied"), _number(found["denied"]), gettext("Those of them that a person denied.")),
        Row(gettext("Forbidden"), _number(found["forbidden"]), gettext("Calls that the policy denied by itself.")),
    ]


@register.filter
def latency_rows(found: dict) -> list[tuple[str, dict]]:
    tiers = [(TIERS[name][0], summary) for name, summary in found["by_tier"].items()]
    return [(gettext("All"), found["all"]), *tiers, *found["by_person"].items()]


@register.filter
def resource_rows(found: dict) -> list[Row]:
    awake, disk, egress, tokens, cost = (found[name] for name in ("awake", "disk", "egress", "tokens", "cost"))
    both = egress["sent"] + egress["received"]
    return [
        Row(gettext("Awake"), _number(awake["hours"]), gettext("Time in which workspaces were up."), gettext("h")),
        Row(
            gettext("Processors reserved"),
            _number(awake["processor_hours"]),
            gettext("Hours awake times the processors that the environment allows; not what programs used of them."),
            gettext("processor hours"),
        ),
        Row(
            gettext("Memory reserved"),
            _number(awake["memory_gb_hours"]),
            gettext("Hours awake times the memory that the environment allows; not what programs used of it."),
            gettext("GB hours"),
        ),
        Row(
            gettext("Disk"),
            _number(disk["workspace_bytes"] / GB, 2),
            gettext("Files of the newest snapshots of all workspaces, now. Snapshots of this period added %(n)s GB.")
            % {"n": _number(disk["snapshot_bytes_added"] / GB, 2)},
            "GB",
        ),
        Row(
            gettext("Network"),
            _number(both / GB, 3),
            gettext("Bytes that programs sent and received through the proxy: %(sent)s GB sent.")
            % {"sent": _number(egress["sent"] / GB, 3)},
            "GB",
        ),
        Row(
            gettext("Tokens"),
            _number(tokens["input"] + tokens["output"]),
            gettext("Tokens of models, where an agent reports them with the outcome of a call: read and written."),
        ),
        Row(
            gettext("Cost"),
            f"{_number(cost['total'], 2)} {cost['currency']}",
            gettext("At the prices below: %(awake)s awake, %(egress)s network, %(tokens)s tokens.")
            % {name: _number(cost[name], 2) for name in ("awake", "egress", "tokens")},
        ),
    ]


@register.filter
def call_columns(days: list[dict]) -> Columns:
    return Columns(
        [gettext("Let run"), gettext("Asked"), gettext("Denied")],
        [(day["day"], [day["let_run"], day["asked"], day["denied"]]) for day in days],
    )


@register.filter
def awake_columns(days: list[dict]) -> Columns:
    return Columns([gettext("Hours awake")], [(day["day"], [f"{day['awake_hours']:.2f}"]) for day in days])


@register.filter
def egress_columns(days: list[dict]) -> Columns:
    return Columns(["MB"], [(day["day"], [f"{day['egress_bytes'] / 10**6:.2f}"]) for day in days])


LIMITS = {
    "awake_hours": gettext_lazy("Hours awake this month"),
    "egress_bytes": gettext_lazy("GB over the network this month"),
    "workspaces": gettext_lazy("Workspaces now"),
    "disk_bytes": gettext_lazy("GB on disk now"),
    "agent_tokens": gettext_lazy("Tokens of started agents this month"),
    "agent_cost": gettext_lazy("Cost of models of started agents this month"),
}


@register.filter
def limit_label(measure: str) -> str:
    return LIMITS[measure]
