"""Whose an account at a code host is: a person of the team, set by admins.

An account is known by the host's own id from the first time that it is seen, so that nobody acts for a person by
taking a name that was given up.
"""

from django.contrib.auth import get_user_model

from approvals.models import HostAccount
from approvals.models.code_hosts import MAX_LOGIN
from dashboard.models import Event, Team
from dashboard.people.access import Caller, caller_of
from dashboard.problems import conflict, invalid, not_allowed
from workspaces import code_hosts
from workspaces.code_hosts.threads import Person


def of_team(team) -> list[HostAccount]:
    return list(HostAccount.objects.filter(team=team).select_related("user").order_by("origin", "login"))


def require(caller: Caller, team):
    """Problem 403 unless the caller may say whose an account is."""
    if not caller.is_person or not caller.can("manage_people", team):
        raise not_allowed("Only an admin can say whose an account at a code host is.")


def add(team: Team, wish: dict, *, caller: Caller) -> HostAccount:
    """Say that an account is a person's: {person, host, login}. Problem 403, 409, 422 with its `field`."""
    require(caller, team)
    login = (wish.get("login") or "").strip().removeprefix("@").lower()
    if not login or len(login) > MAX_LOGIN or not login.isprintable() or " " in login:
        raise invalid("Give the name of the account.", field="login")
    origin = code_hosts.origin_of(wish.get("host") or "")
    if not origin.startswith("http"):
        raise invalid("Give the address of the host, as in https://github.com.", field="host")
    people = get_user_model().objects.filter(is_active=True, memberships__team=team)
    user = people.filter(username=wish.get("person") or "").first()
    if user is None:
        raise invalid("Nobody in the team has this name.", field="person")
    with Team.objects.turn(team.pk):
        if HostAccount.objects.filter(team=team, origin=origin, login=login).exists():
            raise conflict(f"Whose {login} is at {origin} is known. Remove that first.")
        row = HostAccount.objects.create(team=team, user=user, origin=origin, login=login)
        _record(row, caller, "host_account.added")
    return row


def remove(row: HostAccount, *, caller: Caller):
    """Forget whose an account is: it starts and answers nothing from then on. Problem 403."""
    require(caller, row.team_id)
    with Team.objects.turn(row.team_id):
        _record(row, caller, "host_account.removed")
        row.delete()


def caller_for(team_id, origin: str, by: Person | None) -> Caller | None:
    """Return the person of an account as a member of the team; None if that is not known, or they are not in it."""
    row = _row_for(team_id, origin, by) if by else None
    if row is None:
        return None
    caller = caller_of(row.user).only_in(team_id)
    return caller if team_id in caller.roles else None


def _row_for(team_id, origin: str, by: Person) -> HostAccount | None:
    rows = HostAccount.objects.filter(team=team_id, origin=origin).select_related("user")
    if known := rows.filter(account=by.id).first():
        return known
    named = rows.filter(login=by.login.lower(), account="").first()
    if named is None:
        return None
    HostAccount.objects.filter(pk=named.pk, account="").update(account=by.id)
    return named


def _record(row: HostAccount, caller: Caller, verb: str):
    about = {"login": row.login, "host": row.origin, "person": row.user.get_username()}
    Event.objects.record(row.team_id, actor=caller.actor, verb=verb, subject=row, data=about)
