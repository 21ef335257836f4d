"""The figures of the oversight report, from the rows of actions and decisions and from the event log."""

from collections import Counter, defaultdict

from django.contrib.auth import get_user_model
from django.db.models import Count, F, Q

from approvals.models import Action, Decision, Drill, DrillOutcome, Look, Status, Tier
from approvals.reports.ask_rate import ASKED
from dashboard.database import clock
from dashboard.event_log import checkpoints
from dashboard.models import Event, Membership
from dashboard.people.access import MATRIX
from dashboard.site.measures import approvals
from dashboard.site.measures.approvals import SecondsBetween
from dashboard.site.measures.period import Period
from dashboard.site.measures.quantiles import summary

QUICK_S = 3  # an approval this soon after the request can hardly have been read
ALL_APPROVED_FROM = 20  # decisions from which a person who approved all of them is counted
STOPS = {
    "team.stopped": "everything_stopped",
    "agent.paused": "agents_paused",
    "agent.interrupted": "agents_interrupted",
}
CHANGES = {
    "policy.saved": "policies_saved",
    "grant.given": "grants_given",
    "action.ran_differently": "ran_differently",
    "action.answered_on_device": "answered_in_notifications",
}


def oversight(team, period: Period, caller) -> dict:
    """Return the figures as plain JSON; docs/oversight.md defines each.

    Figures of single people are in it for leads and admins, and for the person.
    """
    decisions = _decisions(team, period)
    everybody = caller.can("read_measures_of_people", team)
    people = _by_person(decisions)
    counted = _counted_events(team, period, STOPS | CHANGES)
    return {
        "report": 1,
        "team": team.slug,
        "from": period.first.isoformat(),
        "to": period.last.isoformat(),
        "made_at": clock.now().isoformat(timespec="seconds"),
        "calls": _calls(team, period),
        "undo": _undo(team, period),
        "reviewers": {"may_decide": _reviewers(team), "decided": len(people)},
        "decisions": _sums(decisions),
        "by_tier": _by_tier(team, period, decisions),
        "by_person": [row for row in people if everybody or row["person"] == caller.actor.label],
        "attention": _attention(team, period, decisions, people, counted),
        "exceptions": _exceptions(decisions, counted),
        "stops": {name: counted[name] for name in STOPS.values()},
        "log": _log(team),
    }


def _decisions(team, period: Period) -> list[dict]:
    """Return the answers that people gave in the period, those before the last vote too."""
    given = Decision.objects.filter(action__team=team, action__drill=None, at__gte=period.since, at__lt=period.until)
    fields = {
        "tier": F("action__tier"),
        "quorum": F("action__quorum"),
        "seconds": SecondsBetween(F("at"), F("action__created_at")),
    }
    return list(given.order_by("at").values("verdict", "final", "do_first", "unheld", "assertion", "user_id", **fields))


def _kind(decision: dict) -> str:
    if decision["verdict"] == "deny":
        return "sent_back" if decision["do_first"] else "denied"
    return "edited" if decision["verdict"] == "edit" else "approved"


def _sums(decisions: list[dict]) -> dict:
    kinds = Counter(map(_kind, decisions))
    times = summary([one["seconds"] for one in decisions if one["final"]])
    return {name: kinds[name] for name in ("approved", "edited", "sent_back", "denied")} | times


def _calls(team, period: Period) -> dict:
    found = approvals.calls(team.pk, period)
    return {name: found[name] for name in approvals.COUNTED}


def _undo(team, period: Period) -> dict:
    """Return how many calls of the period that ran can be undone inside, outside or not, and were outside.

    `inside`: by a snapshot, in whole or in part; `not`: also those of which that is not known.
    """
    actions = Action.objects.filter(team=team, created_at__gte=period.since, created_at__lt=period.until, drill=None)
    ran = actions.filter(consumed_at__isnull=False)
    kinds = dict(ran.order_by().values_list("undo").annotate(Count("pk")))
    taken = actions.filter(compensates__isnull=False)
    return {
        "inside": kinds.get("yes", 0) + kinds.get("partly", 0),
        "outside": kinds.get("outside", 0),
        "not": kinds.get("no", 0) + kinds.get("unknown", 0),
        "taken_back": taken.filter(status=Status.SUCCEEDED).count(),
        "not_taken_back": taken.filter(status__in=[Status.FAILED, Status.UNCERTAIN]).count(),
    }


def _reviewers(team) -> int:
    """Return how many people may decide now."""
    least, _ = MATRIX["decide"]
    roles = list(type(least))
    enough = roles[roles.index(least) :]
    return Membership.objects.in_force().filter(team=team, role__in=enough, user__is_active=True).count()


def _by_tier(team, period: Period, decisions: list[dict]) -> list[dict]:
    actions = Action.objects.filter(team=team, created_at__gte=period.since, created_at__lt=period.until)
    counts = (
        actions.order_by()
        .values("tier")
        .annotate(
            asked=Count("pk", filter=ASKED),
            unanswered=Count("pk", filter=Q(status=Status.EXPIRED, decided_at=None)),
        )
    )
    asked = {row["tier"]: row for row in counts}
    kinds, times = defaultdict(Counter), defaultdict(list)
    for one in decisions:
        kinds[one["tier"]][_kind(one)] += 1
        if one["final"]:
            times[one["tier"]].append(one["seconds"])
    found = []
    for tier in (Tier.CRITICAL, Tier.HIGH, Tier.MEDIUM, Tier.LOW):
        row = asked.get(tier, {})
        counted = {name: kinds[tier][name] for name in ("approved", "edited", "sent_back", "denied")}
        found.append(
            {"tier": str(tier), "asked": row.get("asked", 0), **counted, "unanswered": row.get("unanswered", 0)}
            | summary(times[tier])
        )
    return found


def _by_person(decisions: list[dict]) -> list[dict]:
    of = defaultdict(list)
    for one in decisions:
        of[one["user_id"]].append(one)
    names = dict(get_user_model().objects.filter(pk__in=of).values_list("pk", "username"))
    rows = [{"person": names[pk], **_sums(given), "quick": sum(map(_is_quick, given))} for pk, given in of.items()]
    return sorted(rows, key=lambda row: row["person"])


def _is_quick(decision: dict) -> bool:
    return _kind(decision) == "approved" and decision["seconds"] < QUICK_S


def _attention(team, period: Period, decisions: list[dict], people: list[dict], counted: Counter) -> dict:
    """Return what tells whether people read what they approve."""
    approved = [one for one in decisions if _kind(one) == "approved"]
    shown = [one["assertion"]["rendered"] for one in approved if (one["assertion"] or {}).get("rendered")]
    unasked = Action.objects.filter(
        team=team, created_at__gte=period.since, created_at__lt=period.until, tier=Tier.MEDIUM
    ).exclude(ASKED)
    looks = Look.objects.filter(action__in=unasked.order_by().values("pk"))
    return {
        "approvals": len(approved),
        "quick_s": QUICK_S,
        "quick": sum(map(_is_quick, approved)),
        "shown": len(shown),
        "unread": sum(statement["read"] < statement["count"] for statement in shown),
        "answered_in_notifications": counted["answered_in_notifications"],
        "approved_everything": sum(_approved_everything(row) for row in people),
        "approved_everything_from": ALL_APPROVED_FROM,
        **_drills(team, period),
        "unasked": unasked.count(),
        "unasked_looked_at": looks.count(),
    }


def _drills(team, period: Period) -> dict:
    ended = Drill.objects.filter(action__team=team, ended_at__gte=period.since, ended_at__lt=period.until)
    counted = Counter(ended.values_list("outcome", flat=True))
    return {f"drills_{name}": counted[name] for name in DrillOutcome.values}


def _approved_everything(row: dict) -> bool:
    others = row["edited"] + row["sent_back"] + row["denied"]
    return not others and row["approved"] >= ALL_APPROVED_FROM


def _exceptions(decisions: list[dict], counted: Counter) -> dict:
    critical = [one for one in decisions if one["final"] and one["quorum"] > 1 and _kind(one) == "approved"]
    alone = [one for one in critical if (one["assertion"] or {}).get("solo")]
    return {
        "by_two_people": len(critical) - len(alone),
        "alone": len(alone),
        "with_passkey": sum(bool((one["assertion"] or {}).get("passkey")) for one in decisions),
        "unheld": sum(one["unheld"] for one in decisions),
        **{name: counted[name] for name in ("grants_given", "policies_saved", "ran_differently")},
    }


def _counted_events(team, period: Period, names: dict[str, str]) -> Counter:
    found = Event.objects.filter(team=team, verb__in=names, at__gte=period.since, at__lt=period.until)
    rows = found.order_by().values_list("verb").annotate(Count("pk"))
    return Counter({names[verb]: number for verb, number in rows})


def _log(team) -> dict:
    """Return the number of the log's newest event, and its newest checkpoint as it is kept elsewhere, or None."""
    signed = checkpoints.newest(team)
    return {"events": team.event_seq, "checkpoint": checkpoints.as_download(signed) if signed else None}
