"""Which workspaces a list shows, and in which order: the same filters on the page and in the API."""

from dataclasses import dataclass, fields
from datetime import timedelta

from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce
from django.utils.translation import gettext, gettext_lazy

from dashboard.database import clock
from dashboard.problems import invalid
from dashboard.web.lookup import Order
from workspaces.host import place
from workspaces.models import State, StateCode
from workspaces.programs.checks import failing

OUT_OF_REACH = Q(state=State.READY, reason_code__in=StateCode.out_of_reach())
STATES = [
    ("", gettext_lazy("All"), Q()),
    ("awake", gettext_lazy("Ready"), Q(state=State.READY)),
    ("asleep", gettext_lazy("Paused"), Q(state__in=[State.PAUSED, State.STOPPED])),
    ("archived", gettext_lazy("Archived"), Q(state=State.ARCHIVED)),
    ("away", gettext_lazy("Can't be reached"), OUT_OF_REACH),
    ("broken", gettext_lazy("Failed"), Q(state=State.FAILED)),
    ("checks", gettext_lazy("Checks failed"), failing()),
]
CHANGED = Q(head__isnull=False, baseline__isnull=False) & ~Q(head__tree=F("baseline__tree"))
MAX_QUIET_DAYS = 36_500


def _text(value: str) -> str:
    if "\0" in value:
        raise ValueError(value)
    return value


def _count(value: str) -> int:
    if not value.isdecimal() or len(value) > 18:
        raise ValueError(value)
    return int(value)


# name in the address: (words, the order)
ORDERS = {
    "": (gettext_lazy("Newest"), Order()),
    "activity": (gettext_lazy("Last active"), Order("active_at")),
    "quiet": (gettext_lazy("Quiet the longest"), Order("active_at", ascending=True)),
    "size": (gettext_lazy("Largest"), Order("size", read=_count)),
    "name": (gettext_lazy("Name"), Order("key", ascending=True, read=_text)),
}


@dataclass(frozen=True)
class Filters:
    """What a list of workspaces is asked for, as texts of its address; "" for what is not asked."""

    state: str = ""
    label: str = ""  # name, or name:value
    owner: str = ""  # a person's name, or "none"
    agent: str = ""
    environment: str = ""
    driver: str = ""
    quiet: str = ""  # at least so many days
    changed: str = ""  # "yes": its files differ from those after setup
    fork_of: str = ""
    name: str = ""  # a part of the key
    sort: str = ""

    @property
    def chosen(self) -> dict[str, str]:
        """Return {name: value} of the filters that are set; the order is none."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in named.items() if value and name != "sort"}

    @property
    def order(self) -> Order:
        return ORDERS.get(self.sort, ORDERS[""])[1]


def quiet_days(text: str) -> int:
    """Return a number of days. Problem 422 for anything else."""
    if not text.isdecimal() or len(text) > 5 or int(text) > MAX_QUIET_DAYS:
        raise invalid(gettext("Give the days as a whole number, at most 36,500."))
    return int(text)


def chosen(rows: QuerySet, wanted: Filters) -> QuerySet:
    """Return the workspaces that the filters let through, with the columns of every order. Problem 422."""
    rows = rows.annotate(active_at=Coalesce("last_active_at", "created_at"), size=Coalesce("head__bytes", 0))
    conditions = {name: condition for name, _, condition in STATES if name}
    if wanted.state == StateCode.UNREACHABLE:
        rows = rows.filter(place.are_away())
    elif wanted.state == "away":
        rows = rows.filter(OUT_OF_REACH | place.are_away())
    elif wanted.state:
        # The API says that a workspace of a silent host is unreachable, so its stored state does not match.
        rows = rows.filter(conditions.get(wanted.state, Q(state=wanted.state) & ~place.are_away()))
    if wanted.label:
        name, _, value = wanted.label.partition(":")
        rows = rows.filter(label_rows__name=name, **({"label_rows__value": value} if value else {}))
    if wanted.owner:
        rows = rows.filter(Q(owner=None) if wanted.owner == "none" else Q(owner__username=wanted.owner))
    if wanted.agent:
        # Subqueries, so that no join doubles a row.
        bound = rows.model.bound_agents.through.objects.filter(agent__name=wanted.agent).values("workspace")
        rows = rows.filter(Q(created_by_agent__name=wanted.agent) | Q(pk__in=bound))
    if wanted.quiet:
        rows = rows.filter(active_at__lte=clock.now() - timedelta(days=quiet_days(wanted.quiet)))
    if wanted.changed:
        rows = rows.filter(CHANGED)
    exact = {
        "environment__name": wanted.environment,
        "environment__driver": wanted.driver,
        "forked_from__key": wanted.fork_of,
        "key__icontains": wanted.name,
    }
    return rows.filter(**{column: value for column, value in exact.items() if value})
