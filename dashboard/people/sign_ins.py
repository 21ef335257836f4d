"""When and how a person signed in: stored in the session, and recorded in the log of each of the person's teams."""

from datetime import datetime

from dashboard.database import clock
from dashboard.models import Actor, Event


def record_for_person(user, verb: str, *, actor: Actor | None = None, **data):
    """Append an event about a person to the log of each of the person's teams."""
    for membership in user.memberships.select_related("team").order_by("team_id"):
        Event.objects.record(membership.team, actor=actor or Actor.person(user), verb=verb, subject=user, data=data)


def note_sign_in(request, how: str, **more):
    """Store in the session when and how ("password" or "link") it began, and what an identity provider said of it."""
    request.session["signed_in"] = {"at": clock.now().isoformat(), "how": how, **more}


def provider_saw_second_factor(request) -> bool:
    """Return True if the identity provider said that it asked for a second factor, and an admin trusts it in that."""
    return bool((request.session.get("signed_in") or {}).get("second_factor"))


def signed_in_at(request) -> tuple[datetime | None, str]:
    """Return when and how the session of this request began; (None, "") if not known."""
    noted = request.session.get("signed_in") or {}
    return (datetime.fromisoformat(noted["at"]), noted["how"]) if noted else (None, "")
