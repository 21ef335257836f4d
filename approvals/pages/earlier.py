"""What came before a request: approvals of the same call, and the calls before it in its session."""

from datetime import timedelta

from django.db.models import Count, Max, Q

from approvals.models import Action

SINCE = timedelta(days=30)
MAX_BEFORE = 3  # calls of the same session that the card lists


def approved_before(action) -> dict:
    """Return how often people approved the same call, and one of the same title: {same, alike, last}; {} if never."""
    known = Q(team=action.team_id, created_at__gte=action.created_at - SINCE, created_at__lt=action.created_at)
    alike = Q(digest=action.digest) | Q(title=action.title, tool=action.tool, workspace=action.workspace_id)
    by_people = Q(decisions__final=True, decisions__verdict="approve")
    found = Action.objects.filter(known & alike & by_people).aggregate(
        alike=Count("pk", distinct=True),
        same=Count("pk", filter=Q(digest=action.digest), distinct=True),
        last=Max("decided_at"),
    )
    return found if found["alike"] else {}


def calls_before(action) -> list[Action]:
    """Return the last calls of the same agent and session before this one, the oldest first; [] without a session."""
    if not action.session:
        return []
    same = Action.objects.filter(team=action.team_id, agent=action.agent_id, session=action.session)
    earlier = same.filter(created_at__gte=action.created_at - SINCE, created_at__lt=action.created_at)
    return list(earlier.order_by("-created_at")[:MAX_BEFORE])[::-1]
