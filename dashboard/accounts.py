"""Sign-in by django-allauth; nobody signs up: people are invited, or let in by an operator's one-time link."""

from allauth.account.adapter import DefaultAccountAdapter
from django.contrib.auth import get_user_model, login
from django.db.models import Q
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from dashboard import clock
from dashboard.models import Actor, Event, SignInLink
from dashboard.tokens import sha256, use_sign_in_link

# Not no-referrer: browsers then send "Origin: null" with the form, which the CSRF check rightly refuses. This one keeps
# the path, and so the secret, out of every Referer.
REFERRER_POLICY = "strict-origin"


def record_for_person(user, verb: str, *, actor: Actor | None = None, **data):
    """Append an event about a person to the log of each of the person's teams."""
    for membership in user.memberships.select_related("team").order_by("team_id"):
        Event.objects.record(membership.team, actor=actor or Actor.person(user), verb=verb, subject=user, data=data)


class ClosedSignup(DefaultAccountAdapter):
    """allauth's side of it: no sign-up, and what happens at the door is in the log."""

    def is_open_for_signup(self, request):
        return False

    def post_login(self, request, user, **kwargs):
        record_for_person(user, "person.signed_in", how="password")
        return super().post_login(request, user, **kwargs)

    def logout(self, request):
        if request.user.is_authenticated:
            record_for_person(request.user, "person.signed_out")
        super().logout(request)

    def authentication_failed(self, request, **credentials):
        """Only about people who exist: the log must not fill with whatever strangers type, nor tell it to others."""
        name = credentials.get("username") or credentials.get("email") or ""
        known = Q(username__iexact=name) | (Q(email__iexact=name) & ~Q(email=""))
        for user in get_user_model().objects.filter(known):
            record_for_person(user, "person.sign_in_failed", actor=Actor.system("sign-in"))
        super().authentication_failed(request, **credentials)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request, secret):
    """The page of a one-time link. Only its button uses the link up; previews of chat programs merely GET it."""
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
    record_for_person(user, "person.signed_in", how="link")
    wanted = request.POST.get("next", "")
    safe = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return redirect(wanted if safe else "/")


def _find(secret) -> SignInLink | None:
    return SignInLink.objects.select_related("user").filter(sha256=sha256(secret)).first()


def _closed(request, link):
    """404 for a link that never was, 410 for one that was used or has expired."""
    return render(request, "sign_in/closed.html", {"link": link}, status=410 if link else 404)
