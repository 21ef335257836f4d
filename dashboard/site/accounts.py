"""Sign-in by django-allauth. Nobody can sign up: people are invited, or get a one-time link from an operator."""

from allauth.account import views as allauth_views
from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.decorators import reauthentication_required
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth import get_user_model, login
from django.shortcuts import redirect, render
from django.urls import include, path
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache

from approvals.notify.devices import forget_session
from approvals.notify.routing import note_language
from dashboard.database import clock
from dashboard.models import Actor, SignInLink
from dashboard.people import passkeys, sessions, sso
from dashboard.people.sign_ins import note_sign_in, record_for_person
from dashboard.people.tokens import sha256, use_sign_in_link
from dashboard.site import second_factor
from dashboard.site.sso import pages as sso_pages
from dashboard.web.pages import READ_OR_WRITE

BY_PASSKEY = "mfa_reauthenticate:webauthn"
CONFIRM = {
    "reauthenticate": gettext_lazy("Use your password"),
    "mfa_reauthenticate": gettext_lazy("Use a code"),
    BY_PASSKEY: gettext_lazy("Use a passkey"),
}
_confirmed = reauthentication_required(app="allauth.mfa")

# The allauth pages we use. Those for e-mail addresses are left out: an address that a person typed is not verified,
# so no page lets people set one. Signing up is closed, and people who cannot sign in get a new link from an operator.
urlpatterns = [
    path("login/", allauth_views.login, name="account_login"),
    path("logout/", allauth_views.logout, name="account_logout"),
    path("inactive/", allauth_views.account_inactive, name="account_inactive"),
    path("signup/", allauth_views.signup, name="account_signup"),
    path("reauthenticate/", allauth_views.reauthenticate, name="account_reauthenticate"),
    path("password/change/", allauth_views.password_change, name="account_change_password"),
    # Else the session of somebody with a passkey and no password would be enough to get a way around the passkey.
    path("password/set/", _confirmed(allauth_views.password_set), name="account_set_password"),
    path("2fa/", include(second_factor.urlpatterns)),
    path("sso/", include(sso_pages.urlpatterns)),
]

# Not no-referrer: browsers then send "Origin: null" with the form, which the CSRF check rightly refuses. This policy
# keeps the path, and so the secret, out of every Referer.
REFERRER_POLICY = "strict-origin"


class ClosedSignup(DefaultAccountAdapter):
    """allauth's adapter: closes sign-up, and records sign-ins, failed ones and sign-outs in the log."""

    def is_open_for_signup(self, request):
        return False

    def get_reauthentication_methods(self, user) -> list[dict]:
        """Return the ways in which the person can confirm; with a passkey first, if one works at this address."""
        methods = super().get_reauthentication_methods(user)
        for method in methods:
            method["description"] = CONFIRM[method["id"]]
        last = not (user.is_authenticated and passkeys.usable_by(user))
        return sorted(methods, key=lambda method: (method["id"] == BY_PASSKEY) == last)

    def authenticate(self, request, **credentials):
        """Refuse passwords that are off. Who is signed in still confirms with theirs."""
        if not request.user.is_authenticated and sso.local_sign_in_is_closed(credentials.get("username") or ""):
            self.pre_authenticate(request, **credentials)
            return self.authentication_failed(request, **credentials)
        return super().authenticate(request, **credentials)

    def pre_login(self, request, user, *, signal_kwargs=None, **kwargs):
        """Refuse passkeys that are off; a password that is off got as far only within single sign-on."""
        by_sso = "sociallogin" in (signal_kwargs or {})
        if not by_sso and sso.local_sign_in_is_closed(user.get_username()):
            record_for_person(user, "person.sign_in_failed", actor=Actor.system("sign-in"), how="passkey")
            return redirect("account_login")
        return super().pre_login(request, user, signal_kwargs=signal_kwargs, **kwargs)

    def post_login(self, request, user, *, signal_kwargs=None, **kwargs):
        sociallogin = (signal_kwargs or {}).get("sociallogin")
        vouched = sociallogin.state.get("vouched", {}) if sociallogin else {}
        how = second_factor.how_signed_in(request, user)
        note_sign_in(request, how, **vouched)
        if vouched:
            request.session.set_expiry(vouched["hours"] * 3600)
        sessions.write(request, user)
        record_for_person(user, "person.signed_in", how=how)
        note_language(user)
        return super().post_login(request, user, signal_kwargs=signal_kwargs, **kwargs)

    def get_logout_redirect_url(self, request):
        """After single sign-on, lead to the page that says that the session at the provider goes on."""
        noted = request.session.get("signed_in") or {}
        return sso_pages.signed_out_at(noted["end"]) if "end" in noted else super().get_logout_redirect_url(request)

    def logout(self, request):
        if request.user.is_authenticated:
            record_for_person(request.user, "person.signed_out")
        ending = request.session.session_key
        super().logout(request)
        forget_session(ending)

    def authentication_failed(self, request, **credentials):
        """Record failures for existing accounts only: the log must not fill with, or reveal, what strangers type."""
        for user in get_user_model().objects.filter(username__iexact=credentials.get("username") or ""):
            record_for_person(user, "person.sign_in_failed", actor=Actor.system("sign-in"))
        super().authentication_failed(request, **credentials)


@never_cache
@READ_OR_WRITE
def sign_in(request, secret):
    """Show a one-time link's page, or use it up by POST. GET does not, since chat programs fetch links for previews."""
    response = _use(request, secret) if request.method == "POST" else _show(request, secret)
    response["Referrer-Policy"] = REFERRER_POLICY
    return response


def _show(request, secret):
    link = _find(secret)
    if link is None or link.used_at or link.expires_at <= clock.now() or not link.user.is_active:
        return _closed(request, link)
    return render(request, "sign_in/link.html", {"person": link.user, "next": request.GET.get("next", "")})


def _use(request, secret):
    user = use_sign_in_link(secret)
    if user is None:
        return _closed(request, _find(secret))
    login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    note_sign_in(request, "link")
    if (provider := sso.in_force()) and SocialAccount.objects.filter(user=user).exists():
        request.session.set_expiry(provider.session_hours * 3600)
    sessions.write(request, user)
    record_for_person(user, "person.signed_in", how="link")
    wanted = request.POST.get("next", "")
    safe = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return redirect(wanted if safe else "/")


def _find(secret) -> SignInLink | None:
    return SignInLink.objects.select_related("user").filter(sha256=sha256(secret)).first()


def _closed(request, link):
    """Answer 404 for a link that never existed, 410 for one that was used or has expired."""
    return render(request, "sign_in/closed.html", {"link": link}, status=410 if link else 404)
