"""What looked odd in a day: far more calls or denials than on an agent's usual day, new hosts, a denial gone around."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from django.db.models import Count, Q
from django.db.models.functions import TruncDate
from django.utils.translation import gettext, ngettext

from approvals.models import Action, Revision, Status
from dashboard.models import Agent, Team
from workspaces.models import Contact

USUAL = timedelta(days=14)  # before the day, from which an agent's usual day is known
LEAST_DAYS = 3  # in which the agent made a call, for a usual day
TIMES = 3  # as much as on a usual day is odd
LEAST = {"calls": 20, "denied": 5}  # in a day, below which nothing is odd
MOST = 20  # findings of each kind
MAX_DENIED, MAX_LATER = 200, 2000  # calls that are compared
HARMLESS = ("read", "list", "print", "test")  # effects that say nothing of what was denied


@dataclass(frozen=True)
class Odd:
    """Something odd: `what` in words, `about` as an agent or program wrote it, and the calls that show it."""

    kind: str  # rate, host, around
    what: str
    agent: Agent | None = None
    about: str = ""
    actions: tuple[Action, ...] = ()


def odd_of(team: Team, since: datetime, until: datetime) -> list[Odd]:
    """Return what looked odd in the team between two times, in a constant number of queries."""
    return [*_gone_around(team, since, until), *_new_hosts(team, since, until), *_rates(team, since, until)]


# Rates ----------------------------------------------------------------------------------------------------------------


def _rates(team: Team, since: datetime, until: datetime) -> list[Odd]:
    counts = {"calls": Count("pk"), "denied": Count("pk", filter=Q(status=Status.DENIED))}
    calls = Action.objects.filter(team=team).order_by()
    today = calls.filter(created_at__gte=since, created_at__lt=until).values("agent").annotate(**counts)
    before = calls.filter(created_at__gte=since - USUAL, created_at__lt=since)
    usual = defaultdict(list)
    for row in before.annotate(day=TruncDate("created_at")).values("agent", "day").annotate(**counts):
        usual[row["agent"]].append(row)
    agents = Agent.objects.select_related("owner").in_bulk([row["agent"] for row in today])
    found = [_rate(agents[row["agent"]], name, row[name], usual[row["agent"]]) for row in today for name in counts]
    return [each for each in found if each][:MOST]


def _rate(agent: Agent, name: str, count: int, days: list[dict]) -> Odd | None:
    if len(days) < LEAST_DAYS or count < LEAST[name]:
        return None
    middle = median(day[name] for day in days)
    if count <= TIMES * max(middle, 1):
        return None
    if name == "calls":
        words = gettext("%(count)s calls; %(usual)s on a usual day")
    else:
        words = gettext("%(count)s calls denied; %(usual)s on a usual day")
    return Odd("rate", words % {"count": f"{count:,}", "usual": f"{round(middle):,}"}, agent)


# Hosts ----------------------------------------------------------------------------------------------------------------


def _new_hosts(team: Team, since: datetime, until: datetime) -> list[Odd]:
    """Return the hosts that programs reached for the first time in the team, as far as its workspaces remember."""
    reached = Contact.objects.filter(workspace__team=team, allowed=True).exclude(host="")
    rows = reached.filter(first_at__gte=since, first_at__lt=until).values("host").annotate(count=Count("workspace"))
    names = [row["host"] for row in rows.order_by("host")]
    known = set(reached.filter(host__in=names, first_at__lt=since).values_list("host", flat=True))
    return [Odd("host", gettext("reached for the first time"), about=name) for name in names if name not in known][
        :MOST
    ]


# Denials --------------------------------------------------------------------------------------------------------------


def _gone_around(team: Team, since: datetime, until: datetime) -> list[Odd]:
    """Return calls with an effect of one that was denied before, by the same agent and by another call."""
    denied = Action.objects.filter(team=team, status=Status.DENIED, decided_at__gte=since, decided_at__lt=until)
    denied = list(denied.select_related("agent__owner").order_by("-decided_at")[:MAX_DENIED])
    if not denied:
        return []
    agents, first = {each.agent_id for each in denied}, min(each.decided_at for each in denied)
    later = Action.objects.filter(team=team, agent__in=agents, created_at__gt=first, created_at__lt=until)
    later = list(later.exclude(status=Status.DENIED).order_by("created_at")[:MAX_LATER])
    effects = _effects([*denied, *later])
    return [odd for each in denied if (odd := _around(each, later, effects))][:MOST]


def _around(denied: Action, later: list[Action], effects: dict) -> Odd | None:
    tried = [
        each
        for each in later
        if each.agent_id == denied.agent_id
        and each.created_at > denied.decided_at
        and each.call_hash != denied.call_hash
        and effects[each.pk] & effects[denied.pk]
    ]
    if not tried:
        return None
    words = ngettext(
        "%(name)s was denied; %(count)s other call with the same effect followed",
        "%(name)s was denied; %(count)s other calls with the same effect followed",
        len(tried),
    ) % {"name": denied, "count": len(tried)}
    return Odd("around", words, denied.agent, denied.title, (denied, *tried[:3]))


def _effects(actions: list[Action]) -> dict:
    """Return {action's id: {(kind of effect, what it changes)}}, as the policy parsed the current calls."""
    current = {(each.pk, each.revision) for each in actions}
    rows = Revision.objects.filter(action__in=[each.pk for each in actions])
    found: dict = defaultdict(set)
    for pk, number, commands in rows.values_list("action", "number", "commands"):
        if (pk, number) in current:
            found[pk] |= {effect for part in commands for effect in _effects_of(part)}
    return found


def _effects_of(part: dict):
    kind = part.get("kind") or part.get("what")
    if not kind or kind in HARMLESS:
        return
    for name in part.get("names") or part.get("targets") or ():
        if isinstance(name, str) and name:
            yield kind, name
