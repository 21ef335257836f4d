"""My phone: a code on the screen that signs the same person in on the phone that reads it."""

from datetime import timedelta
from ipaddress import ip_address
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from dashboard.accounts import record_for_person
from dashboard.invitations import way_in
from dashboard.pages import signed_in

VALID = timedelta(minutes=10)


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def phone(request):
    """The code is in the answer to the button and nowhere else; it works once, for ten minutes."""
    context = {"nav": "connect", "address": settings.HANDRAIL_PUBLIC_URL, "minutes": VALID.seconds // 60}
    context["only_here"] = is_only_here(settings.HANDRAIL_PUBLIC_URL)
    context["plain_http"] = settings.HANDRAIL_PUBLIC_URL.startswith("http://")
    if request.method == "POST" and not context["only_here"]:
        with transaction.atomic():
            context["link"] = way_in(request.user, valid=VALID)
            record_for_person(request.user, "person.link_made", how="phone")
    response = render(request, "dashboard/phone.html", context)
    response["Cache-Control"] = "no-store"
    return response


def is_only_here(url: str) -> bool:
    """Is this an address that no other device can open: of this machine alone, or of no machine (0.0.0.0)?"""
    host = urlsplit(url).hostname or ""
    try:
        found = ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return found.is_loopback or found.is_unspecified
