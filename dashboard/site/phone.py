"""The phone page: a QR code that signs the same person in on the phone that scans it."""

from datetime import timedelta
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction
from django.shortcuts import render
from django.utils.translation import gettext

from dashboard.net.addresses import is_loopback, is_wildcard
from dashboard.people import passkeys
from dashboard.site.accounts import record_for_person
from dashboard.site.invitations import make_invitation
from dashboard.web.pages import READ_OR_WRITE, signed_in

VALID = timedelta(minutes=10)


@signed_in
@READ_OR_WRITE
def phone(request):
    """Show the page; POST adds a code to this response only. It works once, for ten minutes."""
    context = {"nav": "connect", "address": settings.HANDRAIL_PUBLIC_URL, "minutes": VALID.seconds // 60}
    context["port"] = settings.HANDRAIL_PORT
    context["only_here"] = is_only_here(settings.HANDRAIL_PUBLIC_URL)
    context["works"] = what_works(settings.HANDRAIL_DESK_URL)
    context["plain_http"] = settings.HANDRAIL_PUBLIC_URL.startswith("http://")
    if request.method == "POST" and not context["only_here"]:
        with transaction.atomic():
            context["link"] = make_invitation(request.user, valid=VALID)
            record_for_person(request.user, "person.link_made", how="phone")
    response = render(request, "dashboard/phone.html", context)
    response["Cache-Control"] = "no-store"
    return response


def what_works(url: str) -> list[tuple[str, bool, str]]:
    """Return what a browser offers at this address: [(what, whether it works, why or what else it takes)].

    Browsers offer all of it only in secure contexts: https, or this machine's own names. A passkey needs a name.
    """
    parts = urlsplit(url)
    secure = parts.scheme == "https" or is_loopback(parts.hostname or "")
    plain = "" if secure else gettext("Browsers offer it only over https.")
    no_passkeys = passkeys.why_not_at(url)
    return [
        (gettext("Home screen and offline page"), secure, plain),
        (gettext("Notifications"), secure, plain or gettext("On an iPhone after Share, Add to Home Screen.")),
        (gettext("Passkeys"), not no_passkeys, no_passkeys),
    ]


def is_only_here(url: str) -> bool:
    """Return True if no other device can open this address: it is loopback or a wildcard (0.0.0.0)."""
    host = urlsplit(url).hostname or ""
    return is_loopback(host) or is_wildcard(host)
