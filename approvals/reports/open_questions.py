"""Open questions of a workspace, for its hand-over: requests that need approval, and agents' own questions."""

from django.urls import reverse

from approvals.models import Action, Status
from approvals.questions import own_questions

MAX_LISTED = 50


def of_workspace(workspace) -> list[dict]:
    """Return [{kind, name, words, by, url}], the oldest first; `kind` is "question" or "approval"."""
    rows = Action.objects.filter(workspace=workspace, status=Status.PENDING).select_related("agent")
    return [
        {
            "kind": "question" if action.tool in own_questions.TOOLS else "approval",
            "name": f"A-{action.number}",
            "words": action.title[:300],
            "by": str(action.agent),
            "url": reverse("action", args=[action.pk]),
        }
        for action in rows.order_by("created_at")[:MAX_LISTED]
    ]
