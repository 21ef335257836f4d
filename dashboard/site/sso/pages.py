"""The addresses of single sign-on: begin, come back, link an account to oneself or not any more, and signed out."""

import logging

from allauth.account.decorators import reauthentication_required
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.models import SocialAccount
from allauth.socialaccount.providers.base.constants import AuthProcess
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from django.core import signing
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404
from django.shortcuts import render
from django.urls import path, reverse
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe
from requests import RequestException

from dashboard.keys.keyring import Unreadable
from dashboard.people import group_roles, sso
from dashboard.people.sign_ins import record_for_person
from dashboard.problems import conflict
from dashboard.site.sso.adapter import ACTOR, refusal
from dashboard.site.sso.protocol import OpenID, OpenIDCallback
from dashboard.web.pages import carry_out, signed_in

logger = logging.getLogger("handrail.sso")
LINK, END = "sso link", "sso end"  # what the signatures of addresses are for
ADDRESS_VALID = 600  # seconds


def _provider_or_404() -> sso.Provider:
    found = sso.in_force()
    if found is None:
        raise Http404
    return found


@never_cache
@require_safe
def start(request):
    """Redirect to the provider. A GET, since a form may not lead to another site here; it changes nothing."""
    provider = _provider_or_404()
    wanted = request.GET.get("next", "")
    safe = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, request.is_secure())
    process, state = AuthProcess.LOGIN, {"next_url": wanted if safe else "/"}
    if "link" in request.GET:
        process, state = AuthProcess.CONNECT, {"user": _who_links(request)}
    try:
        return get_adapter().get_provider(request, sso.PROVIDER_ID).begin(request, process, **state)
    except (RequestException, OAuth2Error, Unreadable) as error:
        logger.warning("the identity provider can't be asked: %s", error)
        return refusal(request, provider.name, "unreachable", status=503).response


def _who_links(request) -> int:
    """Return the id of the person whose own page led here; another site has no such address."""
    try:
        told = signing.loads(request.GET["link"], salt=LINK, max_age=ADDRESS_VALID)
    except signing.BadSignature:
        raise PermissionDenied("link an account") from None
    if told != [request.user.pk, request.session.session_key]:
        raise PermissionDenied("link an account")
    return request.user.pk


@never_cache
@require_safe
def callback(request):
    provider = _provider_or_404()
    try:
        return OpenIDCallback.adapter_view(OpenID(request, sso.PROVIDER_ID))(request)
    except Unreadable as error:
        logger.warning("the identity provider can't be asked: %s", error)
        return refusal(request, provider.name, "unreachable", status=503).response
    except ImmediateHttpResponse as refused:
        return refused.response


@signed_in
@never_cache
@require_safe
@reauthentication_required(app="allauth.mfa")
def link(request):
    """Ask before an account at the provider is linked to the person who is signed in."""
    provider = _provider_or_404()
    signed = signing.dumps([request.user.pk, request.session.session_key], salt=LINK)
    address = f"{reverse('sso-start')}?{urlencode({'link': signed})}"
    return render(request, "sso/link.html", {"name": provider.name, "address": address, "nav": "me"})


@signed_in
@require_POST
@reauthentication_required(app="allauth.mfa")
def unlink(request):
    """Remove the link, and with it the roles that came from groups."""
    user = request.user

    def end():
        if not user.has_usable_password() or sso.local_sign_in_is_closed(user.get_username()):
            raise conflict(gettext("You could not sign in any more. Set a password first, if passwords are on."))
        with transaction.atomic():
            if SocialAccount.objects.filter(user=user).delete()[0]:
                record_for_person(user, "person.sso_unlinked")
                group_roles.follow(user, {}, by=ACTOR)

    return carry_out(request, end, then=reverse("me") + "#me-access", say=gettext("The link is removed."))


def signed_out_at(end: str) -> str:
    """Return the address of the page after a sign-out that says where the person may still be signed in."""
    return f"{reverse('sso-signed-out')}?{urlencode({'end': signing.dumps(end, salt=END)})}"


@never_cache
@require_safe
def signed_out(request):
    """Say that the session at the provider may go on, with a link that ends it where the provider has one."""
    provider = _provider_or_404()
    try:
        end = signing.loads(request.GET.get("end", ""), salt=END, max_age=ADDRESS_VALID)
    except signing.BadSignature:
        end = ""
    return render(request, "sso/signed_out.html", {"name": provider.name, "end": end})


urlpatterns = [
    path("", start, name="sso-start"),
    path("callback/", callback, name="sso-callback"),
    path("link/", link, name="sso-link"),
    path("unlink/", unlink, name="sso-unlink"),
    path("signed-out/", signed_out, name="sso-signed-out"),
]
