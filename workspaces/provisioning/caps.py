"""What a team has used of its caps, and the refusal to make or start a workspace once one is met.

Those of hours awake, bytes over the network, and tokens and cost of started agents are for a calendar month in UTC;
those of workspaces and disk hold at any time.
"""

from contextlib import suppress
from datetime import UTC, datetime

from django.db.models import Sum

from dashboard.database import clock
from dashboard.problems import conflict
from workspaces import extensions
from workspaces.drivers import capabilities
from workspaces.host import team_stores
from workspaces.models import Cap, CapMeasure, Checkpoint, EgressDay, Run, State, Workspace
from workspaces.store import Store, StoreError

HOUR = 3600
GB = 10**9
AGENT_MEASURES = (CapMeasure.AGENT_TOKENS, CapMeasure.AGENT_COST)  # enforced by the model relay; they stop no workspace
MONTHLY = (CapMeasure.AWAKE_HOURS, CapMeasure.EGRESS_BYTES, *AGENT_MEASURES)
# {measure: its stored units in one of the units that people read}
UNIT_SIZES = {CapMeasure.EGRESS_BYTES: GB, CapMeasure.DISK_BYTES: GB, CapMeasure.AGENT_COST: 100}
DECIMALS = {CapMeasure.EGRESS_BYTES: 3, CapMeasure.DISK_BYTES: 3, CapMeasure.AGENT_COST: 2}
UNITS = {
    CapMeasure.AWAKE_HOURS: "hours awake",
    CapMeasure.EGRESS_BYTES: "GB over the network",
    CapMeasure.WORKSPACES: "workspaces",
    CapMeasure.DISK_BYTES: "GB on disk",
    CapMeasure.AGENT_TOKENS: "tokens of started agents",
    CapMeasure.AGENT_COST: "for models of started agents",
}
WAY_OUT = {
    CapMeasure.WORKSPACES: "Archive or delete one, or ask a lead to lift the limit on the Measures page.",
    CapMeasure.DISK_BYTES: (
        "Delete workspaces, snapshots or checkpoints, archive workspaces, or ask a lead to lift the limit on the "
        "Measures page."
    ),
}


def month() -> str:
    """Return the current month in UTC as "2026-11"."""
    return clock.now().astimezone(UTC).strftime("%Y-%m")


def used(cap: Cap) -> float:
    """Return how much of the cap's measure the team has used, this month or now."""
    return _USED[cap.measure](cap.team_id)


def _first_of_month() -> datetime:
    now = clock.now().astimezone(UTC)
    return datetime(now.year, now.month, 1, tzinfo=UTC)


def _awake_hours(team_id) -> float:
    spans = Run.objects.spans(team_id, _first_of_month(), clock.now().astimezone(UTC))
    return sum((end - begin).total_seconds() for _, begin, end in spans) / HOUR


def _egress_bytes(team_id) -> int:
    days = EgressDay.objects.filter(workspace__team=team_id, day__gte=_first_of_month().date())
    sums = days.aggregate(sent=Sum("sent"), received=Sum("received"))
    return (sums["sent"] or 0) + (sums["received"] or 0)


def _counted(team_id):
    """Return the workspaces that count: not archived, not in the trash, and no connected folders."""
    kept = Workspace.objects.kept().filter(team=team_id).exclude(state=State.ARCHIVED)
    return kept.not_connected_folders()


def _workspaces(team_id) -> int:
    return _counted(team_id).count()


def _disk_bytes(team_id) -> int:
    """Return the size of the team's store and checkpoints, and of the workspaces' files as last measured.

    One that was never measured counts as its newest snapshot. Those in the trash still have their files. Blocks that
    forks share with their origin count once.
    """
    total = _files_bytes(team_id)
    total += Checkpoint.objects.filter(workspace__team=team_id).aggregate(sum=Sum("bytes"))["sum"] or 0
    with suppress(StoreError):  # there is none yet, or its own check reports what is wrong with it
        total += Store.open(team_stores.blobs_of(team_id)).usage().bytes
    return total


def _files_bytes(team_id) -> int:
    on_host = Workspace.objects.filter(team=team_id, purged_at=None).exclude(state=State.ARCHIVED)
    rows = on_host.not_connected_folders().values_list("pk", "runner", "vitals", "head__bytes")
    counted = {(str(pk), runner) for pk, runner, _, _ in rows}
    total = 0
    for _, runner, vitals, newest in rows:
        # What it shares with a workspace that is gone counts here, until it is measured again.
        shared = sum(one["bytes"] for one in vitals.get("shared", ()) if (one["id"], runner) in counted)
        total += max(vitals.get("bytes", newest or 0) - shared, 0)
    return total


def _agent_tokens(team_id) -> int:
    return extensions.ports.used_by_agents(team_id, _first_of_month())[0]


def _agent_cost(team_id) -> float:
    return float(extensions.ports.used_by_agents(team_id, _first_of_month())[1] * 100)


_USED = {
    CapMeasure.AWAKE_HOURS: _awake_hours,
    CapMeasure.EGRESS_BYTES: _egress_bytes,
    CapMeasure.WORKSPACES: _workspaces,
    CapMeasure.DISK_BYTES: _disk_bytes,
    CapMeasure.AGENT_TOKENS: _agent_tokens,
    CapMeasure.AGENT_COST: _agent_cost,
}


def in_words(cap: Cap) -> str:
    """Return the limit, for example "300 hours awake" or "5 GB over the network"."""
    return amount_in_words(cap.measure, cap.limit)


def amount_in_words(measure: str, amount: float) -> str:
    """Return an amount of a measure, for example "12.5 hours awake"."""
    return f"{in_units(measure, amount)} {UNITS[measure]}"


def in_units(measure: str, amount: float) -> str:
    """Return an amount in the units that people read, without them: hours, gigabytes or a number."""
    return f"{amount / UNIT_SIZES.get(measure, 1):,.{DECIMALS.get(measure, 1)}f}".rstrip("0").rstrip(".")


def refuse_when_met(team_id, driver: str, *, starts: bool = True, adds: bool = False):
    """Problem 409 if a cap of the team is met and was not lifted. Connected folders are never refused.

    `starts`: a workspace is started; `adds`: one more counts afterwards, as it is made or leaves archive or trash.
    """
    if capabilities.of(driver).own_folder:
        return
    for cap in Cap.objects.filter(team=team_id).exclude(lifted_month=month()).exclude(measure__in=AGENT_MEASURES):
        concerns = adds if cap.measure == CapMeasure.WORKSPACES else starts
        if concerns and (amount := used(cap)) >= cap.limit:
            raise conflict(_refusal(cap, amount), code="cap_met", measure=cap.measure)


def _refusal(cap: Cap, amount: float) -> str:
    if cap.measure in MONTHLY:
        return (
            f"The team's limit of {in_words(cap)} a month is met, so no workspace starts. A lead can lift it on "
            "the Measures page; else it ends with the month."
        )
    has = amount_in_words(cap.measure, amount)
    return f"The team has {has}, and its limit is {in_words(cap)}. {WAY_OUT[cap.measure]}"


def remaining_for_agents(team_id) -> list[tuple[Cap, float]]:
    """Return [(limit, remaining amount)] of the team's limits for started agents that are not lifted.

    Needs a transaction: the rows are locked, so that concurrent requests cannot exceed a limit together.
    """
    caps = Cap.objects.locked().filter(team=team_id, measure__in=AGENT_MEASURES).exclude(lifted_month=month())
    return [(cap, cap.limit - used(cap)) for cap in caps.order_by("measure")]
