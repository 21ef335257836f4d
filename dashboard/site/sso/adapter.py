"""Find, link or create the account of a person whom the identity provider has signed in, set its roles, or refuse."""

import logging
from functools import partial

from allauth.account.internal.emailkit import valid_email_or_none
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount import app_settings
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialAccount
from allauth.socialaccount.providers.base.constants import AuthError, AuthProcess
from django.contrib import messages
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext

from approvals.notify.devices import forget_session
from dashboard.models import Actor
from dashboard.net import outbound
from dashboard.people import group_roles, sso
from dashboard.people.sign_ins import record_for_person
from dashboard.site.sso.protocol import SingleSignOn, app_of

logger = logging.getLogger("handrail.sso")
ACTOR = Actor.system("single sign-on")


class SingleSignOnAdapter(DefaultSocialAccountAdapter):
    """allauth's adapter: one provider, accounts by rules of groups, and no link to an account that is there already."""

    def get_requests_session(self):
        session = outbound.session()
        session.request = partial(session.request, timeout=app_settings.REQUESTS_TIMEOUT)
        return session

    def list_apps(self, request, provider=None, client_id=None) -> list:
        found = sso.in_force()
        return [app_of(found)] if found else []

    def get_provider(self, request, provider, client_id=None) -> SingleSignOn:
        return SingleSignOn(request, app=self.get_app(request, provider, client_id))

    def is_open_for_signup(self, request, sociallogin) -> bool:
        return False  # accounts are made below, and only for people with a role

    def populate_user(self, request, sociallogin, data):
        sociallogin.claims = data["claims"]
        return sociallogin.user

    def pre_social_login(self, request, sociallogin):
        """Find, make or link the account and give it the roles of its groups, or answer that there is none."""
        provider, claims = sso.in_force(), sociallogin.claims
        wanted = _roles(request, provider, claims)
        if sociallogin.state.get("process") == AuthProcess.CONNECT:
            _link(request, sociallogin, wanted)
            raise ImmediateHttpResponse(redirect(reverse("me") + "#me-access"))
        if sociallogin.account.pk:
            user = sociallogin.account.user
            if user.is_active:
                _follow(user, wanted)
            if user.is_active and not (user.is_superuser or user.memberships.exists()):
                record_for_person(user, "person.sign_in_failed", actor=ACTOR, how="single sign-on")
                raise refusal(request, provider.name, "no role", status=403)
        else:
            sociallogin.user = _make(request, provider, sociallogin, wanted)
        # The state is kept while a second factor is asked for.
        told = {"second_factor": provider.is_second_factor(claims), "hours": provider.session_hours}
        sociallogin.state["vouched"] = told | {"end": sociallogin.provider.end_address()}

    def on_authentication_error(self, request, provider, error=None, exception=None, extra_context=None):
        """Show our own page for whatever went wrong at the provider or on the way back."""
        logger.warning("a single sign-on failed: %s", exception or error)
        began = (extra_context or {}).get("state")
        reason = "invalid" if began else "no state"
        reason = "cancelled" if error == AuthError.CANCELLED else reason
        raise refusal(request, provider.name, reason, status=401)


def refusal(request, name: str, reason: str, *, status: int, **more) -> ImmediateHttpResponse:
    """Return an exception with the page that says why nobody was signed in."""
    context = {"name": name, "reason": reason, **more}
    return ImmediateHttpResponse(render(request, "sso/refused.html", context, status=status))


def _roles(request, provider: sso.Provider, claims: dict) -> dict:
    """Return the roles of the person's groups; refuse when the provider left the groups out of the token."""
    try:
        groups = group_roles.groups_in(claims, provider.groups_claim)
    except group_roles.GroupsNotTold:
        raise refusal(request, provider.name, "too many groups", status=403) from None
    return group_roles.roles_of(groups, provider.rules())


def _follow(user, wanted: dict):
    for key in group_roles.follow(user, wanted, by=ACTOR):
        forget_session(key)


def _make(request, provider: sso.Provider, sociallogin, wanted: dict):
    """Make the account of a person who signs in for the first time; refuse without a role, and for a name in use."""
    if not wanted:
        raise refusal(request, provider.name, "no role", status=403)
    user = get_user_model()(username=_username(request, provider, sociallogin.claims))
    user.set_unusable_password()
    user.email = _verified_email(sociallogin.claims)
    try:
        with transaction.atomic():
            user.save()
            sociallogin.account.user = user
            sociallogin.account.save()
            _follow(user, wanted)
    except IntegrityError:  # two first sign-ins at once
        raise refusal(request, provider.name, "name taken", status=409, username=user.username) from None
    return user


def _username(request, provider: sso.Provider, claims: dict) -> str:
    """Return a free, valid user name; refuse one that is taken, which is never linked by itself."""
    users = get_user_model()
    told = claims | {"email": _verified_email(claims)}
    names = [told.get(provider.username_claim), claims.get("preferred_username"), told["email"]]
    name = next((name for name in [*names, claims["sub"]] if isinstance(name, str) and name), "")
    name = users.normalize_username(name)
    try:
        users(username=name).clean_fields(exclude=["password"])
    except ValidationError:
        raise refusal(request, provider.name, "bad name", status=403) from None
    if users.objects.filter(username__iexact=name).exists():
        raise refusal(request, provider.name, "name taken", status=409, username=name)
    return name


def _verified_email(claims: dict) -> str:
    """Return the address if the provider says that it is verified; it identifies nobody here."""
    email = claims.get("email") if claims.get("email_verified") is True else None
    return valid_email_or_none(email) or ""


def _link(request, sociallogin, wanted: dict):
    """Link the identity to the signed-in person who asked for it, unless it or the person has another link."""
    user, taken = request.user, sociallogin.account.pk
    if not user.is_authenticated or sociallogin.state.get("user") != user.pk:
        messages.error(request, gettext("You signed in as somebody else meanwhile. Nothing was linked."))
    elif taken and sociallogin.account.user_id != user.pk:
        messages.error(request, gettext("That account is linked to another person here. Nothing was changed."))
    elif not taken and SocialAccount.objects.filter(user=user).exists():
        messages.error(request, gettext("You have linked another account already. Remove that link first."))
    else:
        with transaction.atomic():
            if not taken:
                sociallogin.account.user = user
                sociallogin.account.save()
                record_for_person(user, "person.sso_linked")
            _follow(user, wanted)
        messages.success(request, gettext("The account is linked: it signs you in from now on."))
