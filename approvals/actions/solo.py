"""Solo approval: the only person in a team who may approve can approve a critical action alone.

It closes for good once a second person may approve; `manage.py reopen_solo` opens it again. A team can switch it off.
It takes a browser session that signed in within the last 15 minutes, never a token.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from dashboard.database import clock
from dashboard.models import Role, Team
from dashboard.people import sole_approver
from dashboard.people.sign_ins import signed_in_at
from dashboard.problems import not_allowed

FRESH = timedelta(minutes=15)
# Minimum age of a sign-in by link, as the link may have been found and used by somebody else.
LINK_AGE = timedelta(minutes=1)


@dataclass(frozen=True)
class SoloRequest:
    """A browser's request for a solo approval: the target as typed, and when and how the session signed in."""

    typed: str
    at: datetime | None
    how: str


def of_request(request, typed: str) -> SoloRequest:
    at, how = signed_in_at(request)
    return SoloRequest(typed, at, how)


def target_of(action) -> str:
    """Return what the person has to type: the workspace's key, or the agent's name if there is no workspace."""
    return action.workspace.key if action.workspace else action.agent.name


def is_offered(action, caller) -> bool:
    """Return whether this person may approve the action alone: the quorum is above 1 and nobody else may approve."""
    return (
        action.quorum > 1
        and caller.is_person
        and caller.token is None
        and caller.roles.get(action.team_id) == Role.ADMIN
        and sole_approver.is_alone(action.team, caller.user)
    )


def refuse_unless_fresh(alone: SoloRequest):
    """Raise Problem 403 if the session's sign-in is older than FRESH, or was by a link less than LINK_AGE ago."""
    age = clock.now() - alone.at if alone.at else None
    if age is None or age > FRESH:
        raise not_allowed("Sign out and in again: approving alone needs a sign-in within the last 15 minutes.")
    if alone.how == "link" and age < LINK_AGE:
        raise not_allowed("You signed in with a link a moment ago. Wait a minute, then approve.")


def check(action, caller, alone: SoloRequest):
    """Raise Problem 403 unless this person may approve the action alone now. Call it in the decision's transaction."""
    team = Team.objects.locked().get(pk=action.team_id)
    if not is_offered(action, caller) or not sole_approver.is_alone(team, caller.user):
        raise not_allowed("Someone else in the team can approve too, so this needs two people.")
    refuse_unless_fresh(alone)
    if alone.typed.strip() != target_of(action):
        raise not_allowed(f"Type {target_of(action)} to approve this alone. Nothing was approved.")
