"""Invitations: a pasted list of names and addresses adds people to a team with one-time links, all of them or none."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

import segno
from allauth.account.models import EmailAddress
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.urls import reverse
from django.utils.safestring import mark_safe
from django.utils.translation import gettext

from dashboard.database import clock
from dashboard.models import Actor, Event, Membership, Team
from dashboard.people.provisioning import person_in
from dashboard.people.tokens import make_sign_in_link

MAX_INVITED = 50  # people of one list
MAX_LIST = 20_000  # characters of it
LINK_VALID = timedelta(days=7)
# Commas separate people, but not inside the quotes or brackets that e-mail programs put around names and addresses.
_PARTS = re.compile(r'(?:"[^"]*"|<[^<>]*>|[^,;])+')
_NAMED = re.compile(r'(?:"(?P<quoted>[^"]*)"\s*|(?P<name>[^"<>]*))<(?P<address>[^<>]*)>')


@dataclass(frozen=True)
class Invitee:
    """One person of a pasted list: user name, and address and full name if given."""

    name: str
    address: str = ""
    full_name: str = ""


@dataclass(frozen=True)
class Invitation:
    """A one-time sign-in address for one person. `qr` is an inline SVG generated here from our own address."""

    user: object
    address: str
    until: datetime

    @property
    def qr(self) -> str:
        code = segno.make(self.address, error="m")
        return mark_safe(code.svg_inline(scale=5, border=2, svgclass="qr", lineclass=None, omitsize=True))


def make_invitation(user, *, valid: timedelta = LINK_VALID) -> Invitation:
    """Create a sign-in link; the person's earlier unused ones expire. Its address is not stored anywhere."""
    secret = make_sign_in_link(user, valid=valid)
    return Invitation(user, settings.HANDRAIL_PUBLIC_URL + reverse("sign-in", args=[secret]), clock.now() + valid)


def may_be_linked(user, team: Team) -> bool:
    """Return whether an admin of this team may create a sign-in link for the person.

    The link signs in anybody who has it as that person, so it is refused for an operator of the installation and for a
    member of another team.
    """
    return not (user.is_staff or user.is_superuser or user.memberships.exclude(team=team).exists())


def read_list(text: str) -> list[Invitee]:
    """Parse a pasted list: one person a line or separated by commas, as `name`, `address` or `Name <address>`.

    Raise ValidationError naming every invalid entry and everybody who is listed twice.
    """
    if len(text) > MAX_LIST:
        raise ValidationError([f"A list has at most {MAX_LIST} characters."])
    asked, refused, seen = [], [], set()
    for line, raw in enumerate(text.splitlines(), 1):
        for part in filter(None, (part.strip() for part in _PARTS.findall(raw) or [raw])):
            try:
                one = _one(part)
            except ValidationError as error:
                refused.append(f"Line {line}, {part[:80]}: {error.messages[0]}")
                continue
            if one.name.casefold() in seen:
                refused.append(
                    gettext("Line %(line)s: %(name)s is in the list twice.") % {"line": line, "name": one.name}
                )
            seen.add(one.name.casefold())
            asked.append(one)
    if not asked and not refused:
        refused.append(gettext("Paste at least one name or address."))
    if len(asked) > MAX_INVITED:
        refused.append(f"At most {MAX_INVITED} people at once; these are {len(asked)}.")
    if refused:
        raise ValidationError(refused)
    return asked


def _one(part: str) -> Invitee:
    named = _NAMED.fullmatch(part)
    address = named["address"].strip() if named else part if "@" in part else ""
    full_name = ((named["quoted"] or named["name"] or "") if named else "").strip()
    if not named and not address:
        return _checked(Invitee(part))
    try:
        validate_email(address)
    except ValidationError:
        raise ValidationError(gettext("this is no e-mail address.")) from None
    return _checked(Invitee(address.lower(), address, full_name))


def _checked(invitee: Invitee) -> Invitee:
    """Validate as an account: the user names that Django accepts, and field lengths."""
    user = get_user_model()(username=invitee.name, email=invitee.address, first_name=invitee.full_name)
    user.set_unusable_password()
    try:
        user.full_clean(validate_unique=False, validate_constraints=False)
    except ValidationError as error:
        raise ValidationError(error.messages[0]) from None
    return invitee


@transaction.atomic
def invite(team: Team, text: str, role: str, *, by: Actor) -> tuple[list[Invitation], list]:
    """Add everybody on the list to the team with the role; return (links of new people, people with an account).

    Raise ValidationError naming all that is wrong; nobody is added then.
    """
    links, known, refused = [], [], []
    for invitee in read_list(text):
        user = _account(invitee)
        name = user.get_username() if user else invitee.name
        if user and Membership.objects.filter(team=team, user=user).exists():
            refused.append(
                gettext("%(name)s is already in %(team)s. Change the role on the Team page.")
                % {"name": name, "team": team}
            )
            continue
        try:
            person = person_in(team, name, role)
        except ValidationError as error:
            refused.append(error.messages[0])
            continue
        if user is None:
            _keep_details(person, invitee)
        Event.objects.record(team, actor=by, verb="person.added", subject=person, data={"role": role})
        if person.last_login is None and may_be_linked(person, team):
            links.append(make_invitation(person))
        else:
            known.append(person)
    if refused:
        raise ValidationError(refused)
    return links, known


def _account(invitee: Invitee):
    """Return the account with this user name or verified address, ignoring case.

    An unverified address matches nobody: an account that merely claims it would get the invitation.
    """
    people = get_user_model().objects.order_by("pk")
    found = people.filter(username__iexact=invitee.name).first()
    if found or not invitee.address:
        return found
    verified = EmailAddress.objects.filter(verified=True, email__iexact=invitee.address)
    return people.filter(pk__in=verified.values("user")).first()


def _keep_details(person, invitee: Invitee):
    person.email, person.first_name = invitee.address, invitee.full_name
    person.save(update_fields=["email", "first_name"])
