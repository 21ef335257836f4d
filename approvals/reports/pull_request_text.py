"""What a pull request says about the approvals behind its work."""

from approvals.models import Action, Status
from workspaces.services.pull_requests import as_code

MAX_LISTED = 20
RAN = (Status.RUNNING, Status.SUCCEEDED, Status.FAILED)


def approved(workspace) -> list[tuple[str, list[str]]]:
    """Return the actions that people approved and that ran, the newest first, as a section in Markdown."""
    rows = Action.objects.filter(workspace=workspace, status__in=RAN, decisions__verdict="approve").distinct()
    rows = rows.exclude(tool="Handrail.PullRequest").order_by("-created_at").prefetch_related("decisions__user")
    lines = [f"A-{action.number} {as_code(action.title)}: {_people(action)}" for action in rows[:MAX_LISTED]]
    return [("Approved by people", lines)]


def _people(action: Action) -> str:
    names = [each.user.get_username() for each in action.decisions.all() if each.verdict == "approve"]
    return ", ".join(map(as_code, dict.fromkeys(names)))
