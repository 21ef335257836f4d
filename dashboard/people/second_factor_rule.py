"""The rule of a team that its people sign in with a second factor or a passkey, and what a session lacks for it."""

from allauth.account.authentication import get_authentication_records
from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib import admin
from django.db import transaction
from django.urls import reverse

from dashboard.models import Actor, Event, SecondFactorFor, Team
from dashboard.people import passkeys
from dashboard.people.access import Caller, caller_of
from dashboard.people.sign_ins import provider_saw_second_factor
from dashboard.problems import conflict, invalid

SET_UP, CONFIRM = "set up", "confirm"


def lacks(request, caller: Caller) -> str:
    """Return what the session of this request lacks for the rules of the caller's teams; "" if nothing.

    SET_UP: the person has no second factor that works here. CONFIRM: they have one and came in without it, such as by
    a one-time link. Until it is mended the session may do nothing else.
    """
    if not caller.needs_second_factor or provider_saw_second_factor(request):
        return ""
    if not has_one(caller.user):
        return SET_UP
    used = any(record["method"] == "mfa" for record in get_authentication_records(request, caller.user))
    return "" if used else CONFIRM


def has_one(user) -> bool:
    """Return True if the person has an authenticator app, or a passkey that works at this address."""
    own = Authenticator.objects.filter(user=user)
    return own.filter(type=Authenticator.Type.TOTP).exists() or bool(passkeys.usable_by(user))


def mend_at(what: str) -> str:
    """Return the address of the page that says what the session lacks."""
    return reverse("second-factor") if what else ""


def caller_in(request) -> Caller:
    """Return the Caller of a browser's session: in no team while it lacks the second factor that a team wants."""
    caller = caller_of(request.user)
    return Caller(user=caller.user) if lacks(request, caller) else caller


def guard_admin(site: admin.AdminSite):
    """Let nobody into the Django admin whose session lacks the second factor that a team wants."""
    allowed = site.has_permission

    def has_permission(request) -> bool:
        return allowed(request) and not lacks(request, caller_of(request.user))

    site.has_permission = has_permission


@transaction.atomic
def change(team: Team, wanted: str, *, by: Actor):
    """Say whose sign-in takes a second factor. Problem 422 for an unknown group."""
    if wanted not in SecondFactorFor.values:
        raise invalid("A second factor is for nobody, leads (and admins) or everybody.")
    if Team.objects.filter(pk=team.pk).exclude(second_factor_for=wanted).update(second_factor_for=wanted):
        data = {"for": wanted or "nobody"}
        Event.objects.record(team, actor=by, verb="team.second_factor_changed", subject=team, data=data)


@transaction.atomic
def require_passkeys(team: Team, wanted: bool, *, by: Actor):
    """Say whether critical actions take a passkey from everybody. Problem 409 where passkeys don't work."""
    if wanted and (reason := passkeys.why_not_at(settings.HANDRAIL_DESK_URL)):
        raise conflict(f"Nobody could approve critical actions: passkeys don't work at this address. {reason}")
    if Team.objects.filter(pk=team.pk, requires_passkey=not wanted).update(requires_passkey=wanted):
        verb = "team.passkey_required" if wanted else "team.passkey_not_required"
        Event.objects.record(team, actor=by, verb=verb, subject=team)
