"""Create, rename and archive teams; which of several a person looks at."""

from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import transaction

from dashboard.database import clock
from dashboard.models import Actor, Event, Membership, Role, Team
from dashboard.people.access import Caller
from dashboard.problems import conflict, invalid

SHOWN = "shown_team"  # key in the session: the only team whose things pages list


@transaction.atomic
def create(name: str, slug: str, *, by) -> Team:
    """Create a team with `by`, a user, as its admin. Problem 422 for an invalid name, 409 for a slug in use."""
    team = Team(name=name.strip(), slug=slug.strip())
    _check(team)
    if Team.objects.filter(slug=team.slug).exists():
        raise conflict(f"There is already a team {team.slug}.", field="slug")
    team.save(force_insert=True)
    Membership.objects.create(team=team, user=by, role=Role.ADMIN)
    data = {"name": team.name, "slug": team.slug}
    Event.objects.record(team, actor=Actor.person(by), verb="team.created", subject=team, data=data)
    return team


@transaction.atomic
def rename(team: Team, name: str, *, by: Actor):
    """Change the name; the slug, which addresses and exports have, stays. Problem 422 for an invalid name."""
    was, team.name = team.name, name.strip()
    _check(team)
    if Team.objects.filter(pk=team.pk).exclude(name=team.name).update(name=team.name):
        data = {"was": was, "name": team.name}
        Event.objects.record(team, actor=by, verb="team.renamed", subject=team, data=data)


@transaction.atomic
def archive(team: Team, *, by: Actor):
    """Make a stopped team one that is only read. Problem 409 if it is archived already, or not stopped."""
    if not Team.objects.filter(pk=team.pk, archived_at=None, stopped_at__isnull=False).update(archived_at=clock.now()):
        raise conflict(f"{team} is already archived, or was not stopped.")
    Event.objects.record(team, actor=by, verb="team.archived", subject=team)


@transaction.atomic
def unarchive(team: Team, *, by: Actor):
    """Take a team out of the archive; it stays stopped until a lead resumes it. Problem 409 if it is not archived."""
    if not Team.objects.filter(pk=team.pk, archived_at__isnull=False).update(archived_at=None):
        raise conflict(f"{team} is not archived.")
    Event.objects.record(team, actor=by, verb="team.unarchived", subject=team)


def show(session, team: Team | None):
    """Remember in the session that pages list the things of this team alone; None: of all."""
    session.pop(SHOWN, None)
    if team:
        session[SHOWN] = str(team.pk)


def narrowed(request, caller: Caller) -> Caller:
    """Return the caller as a page that only shows something uses it: in the team that the person chose."""
    shown = request.session.get(SHOWN)
    return caller.only_in(UUID(shown)) if shown and request.method in ("GET", "HEAD") else caller


def _check(team: Team):
    try:
        team.clean_fields(exclude=["event_head"])
    except ValidationError as error:
        field, messages = next(iter(error.message_dict.items()))
        raise invalid(messages[0], field=field) from None
