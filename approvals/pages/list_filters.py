"""What the list of waiting calls is narrowed to and how it is sorted. All of it stands in the address."""

from datetime import timedelta
from urllib.parse import urlencode

from django.db.models import Case, Exists, OuterRef, Q, When

from approvals.evaluation.judge import content
from approvals.models import Action, Decision
from approvals.questions import own_questions
from dashboard.web.pages import as_uuid

# Parameters of the address: of the list, of a card that was opened from it, and of what decides there.
FILTERS = ("kind", "undo", "ends", "workspace", "task", "agent", "q", "sort")
KINDS = {"question": own_questions.QUESTIONS, "plan": (own_questions.PLAN,)}
ENDS_SOON = timedelta(minutes=5)
# {sort: the field that decides, and whether its greatest value comes first}; "" is what ends first.
SORTS = {"": ("expires_at", False), "newest": ("created_at", True), "oldest": ("created_at", False)}
MAX_LISTED = 1000  # calls and questions that the list has


def chosen_filters(request) -> dict[str, str]:
    """Return the list's filters and its sort in the URL's query, for GET and POST; "" for what was not chosen."""
    chosen = {name: request.GET.get(name, "").replace("\0", "").strip() for name in FILTERS}
    return chosen | {"sort": chosen["sort"] if chosen["sort"] in SORTS else ""}


def filter_query(chosen: dict[str, str]) -> str:
    """Return the filters as a query string, for the URLs of the list's cards and back to the list; "" if none."""
    query = urlencode({name: value for name, value in chosen.items() if value})
    return f"?{query}" if query else ""


def pending_for(caller, now):
    """Return what waits for approval in the caller's teams and is not snoozed by them, in no order."""
    return Action.objects.visible_to(caller).pending().filter(expires_at__gt=now).not_snoozed(caller.user, now)


def listed_for(caller, now, chosen: dict[str, str]):
    """Return what waits, narrowed and sorted as chosen; what this person was asked for by name comes first."""
    field, descends = SORTS[chosen["sort"]]
    others = Case(When(asked_of=caller.user, then=0), default=1)
    listed = narrowed(pending_for(caller, now), now, chosen).annotate(others=others)
    return listed.order_by("others", f"-{field}" if descends else field, "pk")


def narrowed(actions, now, chosen: dict[str, str]):
    if chosen["kind"]:
        actions = actions.filter(tool__in=KINDS.get(chosen["kind"], ()))
    if chosen["undo"]:
        actions = actions.filter(undo="outside" if chosen["undo"] == "outside" else "no").exclude(
            tool__in=own_questions.TOOLS
        )
    if chosen["ends"]:
        actions = actions.filter(expires_at__lte=now + ENDS_SOON)
    if chosen["workspace"]:
        actions = actions.filter(workspace__key=chosen["workspace"])
    if chosen["task"]:
        task = as_uuid(chosen["task"])  # None would mean calls of no task
        actions = actions.filter(workspace__attempt__task=task) if task else actions.none()
    if chosen["agent"]:
        actions = actions.filter(agent__name=chosen["agent"])
    if chosen["q"]:
        actions = _with_words(actions, chosen["q"])
    return actions


def _with_words(actions, text: str):
    """Return the actions whose title, agent, workspace or tool has the text; of questions, what they ask."""
    asked = actions.filter(tool__in=own_questions.TOOLS).prefetch_related("revisions")[:MAX_LISTED]
    found = [each.pk for each in asked if text.casefold() in _line(each).casefold()]
    named = ("title", "agent__name", "workspace__key", "tool")
    return actions.filter(Q(pk__in=found) | Q(*((f"{name}__icontains", text) for name in named), _connector=Q.OR))


def _line(action: Action) -> str:
    return own_questions.line_of(action.tool, content(action)["arguments"])


def next_card(caller, action: Action, now, chosen: dict[str, str]) -> Action | None:
    """Return the next action in the list that this person may still decide; after the last one the first."""
    teams = [team for team in caller.team_ids if caller.can("decide", team)]
    # Looked up for each pending action; a list of all that this person ever answered would be long.
    answered = Exists(Decision.objects.filter(user=caller.user, action=OuterRef("pk")))
    field, descends = SORTS[chosen["sort"]]

    def place(others, moment, pk):
        return (others, -moment.timestamp() if descends else moment.timestamp(), pk)

    listed = listed_for(caller, now, chosen).filter(~answered, team__in=teams).exclude(pk=action.pk)
    rows = list(listed.values_list("others", field, "pk")[:MAX_LISTED])
    here = place(int(action.asked_of_id != caller.user.pk), getattr(action, field), action.pk)
    below = next((row for row in rows if place(*row) > here), rows[0] if rows else None)
    return below and Action.objects.get(pk=below[2])
