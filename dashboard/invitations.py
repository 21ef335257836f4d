"""Invitations: a pasted list of names and addresses becomes people of a team, each with a one-time link, or nobody."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

import segno
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.urls import reverse
from django.utils.safestring import mark_safe

from dashboard import clock
from dashboard.invite import person_in
from dashboard.models import Actor, Event, Membership, SignInLink, Team
from dashboard.tokens import make_sign_in_link

AT_ONCE = 50
LINK_VALID = timedelta(days=7)
# Commas part people, but not inside the quotes or brackets that e-mail programs put around names and addresses.
_PARTS = re.compile(r'(?:"[^"]*"|<[^>]*>|[^,;])+')
_NAMED = re.compile(r'(?:"(?P<quoted>[^"]*)"|(?P<name>[^"<>]*))\s*<(?P<address>[^<>]*)>')


@dataclass(frozen=True)
class Asked:
    """One person as pasted: the name to sign in with, and what else was said."""

    name: str
    address: str = ""
    full_name: str = ""


@dataclass(frozen=True)
class WayIn:
    """A one-time address for one person. `qr` is an inline SVG made here from our own address."""

    user: object
    address: str
    until: datetime

    @property
    def qr(self) -> str:
        code = segno.make(self.address, error="m")
        return mark_safe(code.svg_inline(scale=5, border=2, svgclass="qr", lineclass=None, omitsize=True))


def way_in(user, *, valid: timedelta = LINK_VALID) -> WayIn:
    """A new link; earlier unused ones of this person end. This is the only time its address is seen."""
    secret = make_sign_in_link(user, valid=valid)
    return WayIn(user, settings.HANDRAIL_PUBLIC_URL + reverse("sign-in", args=[secret]), clock.now() + valid)


def may_be_linked(user, team: Team) -> bool:
    """May an admin of this team make a link for the person? It lets in whoever holds it, as that person: so never for
    an operator of the installation, nor for somebody who is in another team too."""
    return not (user.is_staff or user.is_superuser or user.memberships.exclude(team=team).exists())


def read_list(text: str) -> list[Asked]:
    """The people of a pasted list: one a line or parted by commas; `name`, `address` or `Name <address>`.

    ValidationError names every line that makes no sense and everybody who is there twice.
    """
    asked, refused, seen = [], [], set()
    for line, raw in enumerate(text.splitlines(), 1):
        for part in filter(None, (part.strip() for part in _PARTS.findall(raw) or [raw])):
            try:
                one = _one(part)
            except ValidationError as error:
                refused.append(f"Line {line}, {part[:80]}: {error.messages[0]}")
                continue
            if one.name.casefold() in seen:
                refused.append(f"Line {line}: {one.name} is in the list twice.")
            seen.add(one.name.casefold())
            asked.append(one)
    if not asked and not refused:
        refused.append("Paste at least one name or address.")
    if len(asked) > AT_ONCE:
        refused.append(f"At most {AT_ONCE} people at once; these are {len(asked)}.")
    if refused:
        raise ValidationError(refused)
    return asked


def _one(part: str) -> Asked:
    named = _NAMED.fullmatch(part)
    address = named["address"].strip() if named else part if "@" in part else ""
    full_name = ((named["quoted"] or named["name"] or "") if named else "").strip()
    if not named and not address:
        return _checked(Asked(part))
    try:
        validate_email(address)
    except ValidationError:
        raise ValidationError("this is no e-mail address.") from None
    return _checked(Asked(address.lower(), address, full_name))


def _checked(asked: Asked) -> Asked:
    """As an account would be: the names that Django takes, and their lengths."""
    user = get_user_model()(username=asked.name, email=asked.address, first_name=asked.full_name)
    user.set_unusable_password()
    try:
        user.full_clean(validate_unique=False, validate_constraints=False)
    except ValidationError as error:
        raise ValidationError(error.messages[0]) from None
    return asked


@transaction.atomic
def invite(team: Team, text: str, role: str, *, by: Actor) -> tuple[list[WayIn], list]:
    """Everybody of the list into the team, with the role: (links of those who are new, those who sign in as before).

    ValidationError names all that is wrong; then nobody was added.
    """
    links, known, refused = [], [], []
    for asked in read_list(text):
        user = _account(asked)
        name = user.get_username() if user else asked.name
        if user and Membership.objects.filter(team=team, user=user).exists():
            refused.append(f"{name} is in {team} already; change the role there.")
            continue
        try:
            person = person_in(team, name, role)
        except ValidationError as error:
            refused.append(error.messages[0])
            continue
        if user is None:
            _keep_details(person, asked)
        Event.objects.record(team, actor=by, verb="person.added", subject=person, data={"role": role})
        if person.last_login is None and may_be_linked(person, team):
            links.append(way_in(person))
        else:
            known.append(person)
    if refused:
        raise ValidationError(refused)
    return links, known


def _account(asked: Asked):
    """Who has this name or address, in whatever case it is written."""
    people = get_user_model().objects.order_by("pk")
    found = people.filter(username__iexact=asked.name).first()
    return found or (people.filter(email__iexact=asked.address).first() if asked.address else None)


def _keep_details(person, asked: Asked):
    person.email, person.first_name = asked.address, asked.full_name
    person.save(update_fields=["email", "first_name"])


def end_links(user):
    SignInLink.objects.filter(user=user, used_at=None, expires_at__gt=clock.now()).update(expires_at=clock.now())
