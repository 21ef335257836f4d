"""Caps of a team: set, lifted, and noted in the log when they are nearly or fully used."""

from decimal import Decimal, InvalidOperation

from django.db import transaction
from django.utils.translation import gettext, gettext_lazy

from dashboard.models import Actor, Event, Team
from dashboard.problems import conflict, invalid
from workspaces.models import Cap, CapMeasure
from workspaces.provisioning.caps import AGENT_MEASURES, MONTHLY, UNIT_SIZES, in_units, in_words, month, used

NEARLY = 0.8  # of the limit, from which people are warned
RELAXED = 0.7  # below which the warning is taken back, so that it does not come and go
MAX_LIMIT = 10**15
TOO_LITTLE = {
    CapMeasure.AWAKE_HOURS: gettext_lazy("Give a limit of at least 1 hour, as a number."),
    CapMeasure.EGRESS_BYTES: gettext_lazy("Give a limit of at least 0.001 GB, as a number."),
    CapMeasure.WORKSPACES: gettext_lazy("Give a limit of at least 1 workspace, as a number."),
    CapMeasure.DISK_BYTES: gettext_lazy("Give a limit of at least 0.001 GB, as a number."),
    CapMeasure.AGENT_TOKENS: gettext_lazy("Give a limit of at least 1 token, as a number."),
    CapMeasure.AGENT_COST: gettext_lazy("Give a limit of at least 0.01, as a number."),
}
CHECK = Actor.system("caps")


def of(team) -> list[dict]:
    """Return {cap, words, used, share, is_met, is_lifted} of each cap of the team."""
    return [_seen(cap) for cap in Cap.objects.filter(team=team).select_related("team").order_by("measure")]


def _seen(cap: Cap) -> dict:
    amount = used(cap)
    return {
        "cap": cap,
        "words": in_words(cap),
        "used": amount,
        "used_of": (in_units(cap.measure, amount), in_units(cap.measure, cap.limit)),
        "share": round(100 * amount / cap.limit, 1),
        "is_met": amount >= cap.limit,
        "is_lifted": cap.lifted_month == month(),
    }


def pressing(team_ids) -> list[dict]:
    """Return the caps that were nearly or fully used when last checked, unless they are lifted: rows of the Desk."""
    now = month()
    caps = Cap.objects.filter(team__in=team_ids, warned_month=now).exclude(lifted_month=now).select_related("team")
    return [
        {
            "cap": cap,
            "words": in_words(cap),
            "is_met": cap.met_month == now,
            "is_monthly": cap.measure in MONTHLY,
            "is_of_agents": cap.measure in AGENT_MEASURES,
        }
        for cap in caps.order_by("measure")
    ]


def set_cap(team: Team, measure: str, amount: str, *, by: Actor):
    """Set the team's cap from a text in the units that people read; "" removes it. Problem 422."""
    set_limit(team, measure, _limit(measure, amount) if amount else None, by=by)


@transaction.atomic
def set_limit(team: Team, measure: str, limit: int | None, *, by: Actor):
    """Set the team's cap in hours, bytes or workspaces; None removes it. Problem 422."""
    if measure not in CapMeasure.values:
        raise invalid(gettext("There is no such limit."))
    if limit is not None and not 1 <= limit <= MAX_LIMIT:
        raise invalid(str(TOO_LITTLE[measure]))
    Team.objects.take_turn(team.pk)
    cap = Cap.objects.filter(team=team, measure=measure).first()
    if limit is None:
        if cap:
            Event.objects.record(team, actor=by, verb="cap.removed", subject=cap, data={"measure": measure})
            cap.delete()
        return
    if cap and cap.limit == limit:
        return
    # What was noted belongs to the old limit.
    fields = {"limit": limit, "warned_month": "", "met_month": "", "lifted_month": ""}
    cap = Cap.objects.update_or_create(team=team, measure=measure, defaults=fields)[0]
    data = {"measure": measure, "limit": limit}
    Event.objects.record(team, actor=by, verb="cap.set", subject=cap, data=data)
    _check(cap)


def _limit(measure: str, amount: str) -> int:
    """Return the limit that a text says. Problem 422."""
    if measure not in CapMeasure.values:
        raise invalid(gettext("There is no such limit."))
    try:
        return int(Decimal(amount.replace(",", ".")) * UNIT_SIZES.get(measure, 1))
    except (InvalidOperation, ValueError, OverflowError):
        raise invalid(str(TOO_LITTLE[measure])) from None


@transaction.atomic
def lift(team: Team, measure: str, *, by: Actor):
    """Let workspaces start again until the end of the month. Problem 409 without a cap."""
    Team.objects.take_turn(team.pk)
    now = month()
    cap = Cap.objects.filter(team=team, measure=measure).first()
    if cap is None:
        raise conflict(gettext("There is no such limit."))
    if Cap.objects.filter(pk=cap.pk).exclude(lifted_month=now).update(lifted_month=now):
        data = {"measure": measure, "limit": cap.limit, "month": now}
        Event.objects.record(team, actor=by, verb="cap.lifted", subject=cap, data=data)


def check_all():
    """Note which caps are nearly or fully used, each once a month; the queue calls this every few minutes."""
    for cap in Cap.objects.all():
        _check(cap)


@transaction.atomic
def _check(cap: Cap):
    Team.objects.take_turn(cap.team_id)
    now, amount = month(), used(cap)
    if cap.measure not in MONTHLY:
        _forget_what_passed(cap, amount)
    told = [("met_month", "cap.met", 1.0), ("warned_month", "cap.warned", NEARLY)]
    for column, verb, share in told:
        if amount < cap.limit * share:
            continue
        # A cap that is met needs no warning any more, but it is one that people see.
        if Cap.objects.filter(pk=cap.pk).exclude(**{column: now}).update(**{"warned_month": now, column: now}):
            data = {"measure": cap.measure, "limit": cap.limit, "used": round(amount, 3), "month": now}
            Event.objects.record(cap.team_id, actor=CHECK, verb=verb, subject=cap, data=data)


def _forget_what_passed(cap: Cap, amount: float):
    """Take back what was noted of a cap whose use has fallen, for example since a workspace was deleted."""
    rows = Cap.objects.filter(pk=cap.pk)
    if amount < cap.limit:
        rows.update(met_month="")
    if amount < cap.limit * RELAXED:
        rows.update(warned_month="")
