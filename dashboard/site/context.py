"""Context processor: what every page's frame needs, such as the caller, the feed's cursor and the runner's state."""

from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext

from dashboard.live.feed import cursor_of
from dashboard.models import Banner, Team
from dashboard.people.second_factor_rule import caller_in
from dashboard.people.sso import in_force as provider_in_force
from dashboard.web.background_requests import takes_parts


def page(request):
    """Return the variables of every template; those that need the database are lazy."""
    context = {"csp_nonce": getattr(request, "csp_nonce", ""), "banner": SimpleLazyObject(Banner.objects.current)}
    if takes_parts(request):
        # A notice is shown once. These requests do not show notices, so keep them for the next page that is opened.
        context["messages"] = []
    user = getattr(request, "user", None)
    context["sso"] = SimpleLazyObject(lambda: _single_sign_on(user))
    if user is None or not user.is_authenticated:
        return context
    caller = getattr(request, "caller", None) or SimpleLazyObject(lambda: caller_in(request))
    teams = SimpleLazyObject(lambda: _teams(getattr(request, "all_teams", None) or caller))
    return context | {
        "caller": caller,
        "frame": "base.html",  # of a page about an error; for others bare.html, without navigation
        "cursor": request.cursor if hasattr(request, "cursor") else SimpleLazyObject(lambda: cursor_of(caller)),
        "page_address": getattr(request, "page_address", ""),
        "waiting_count": SimpleLazyObject(lambda: _waiting(caller)),
        "team": SimpleLazyObject(lambda: _only_team(caller, teams)),
        "all_teams": SimpleLazyObject(lambda: list(teams) if hasattr(request, "all_teams") and len(teams) > 1 else []),
        "stopped_teams": SimpleLazyObject(lambda: _stopped_teams(caller, teams)),
        "runner_state": SimpleLazyObject(_runner),
        "theme": request.COOKIES.get("handrail-theme", ""),
        "session_mark": _session_mark(request),
        "keys_off": request.COOKIES.get("handrail-keys") == "off",
    }


def _single_sign_on(user) -> dict:
    """Return the identity provider, if there is one, and whether the person's account is linked to one there."""
    from allauth.socialaccount.models import SocialAccount  # here, after the apps and their models are loaded

    found = provider_in_force()
    known = found and user is not None and user.is_authenticated
    return {"provider": found, "linked": bool(known and SocialAccount.objects.filter(user=user).exists())}


def _session_mark(request) -> str:
    """Return what tells one session from another in the page, and cannot be used as its cookie."""
    return salted_hmac("dashboard.site.context", request.session.session_key or "").hexdigest()[:16]


def _waiting(caller) -> int:
    from approvals.models import Action  # here, after the apps and their models are loaded

    now = timezone.now()
    return Action.objects.visible_to(caller).pending().filter(expires_at__gt=now).not_snoozed(caller.user, now).count()


def _teams(caller) -> list[Team]:
    """Return the caller's teams by name: one query for the header, the switcher and the bar of stopped teams."""
    return list(Team.objects.visible_to(caller).select_related("stopped_by").order_by("name"))


def _only_team(caller, teams) -> Team | dict:
    """Return the caller's team for the header; {} with several teams, since each object then names its own."""
    shown = [team for team in teams if team.pk in caller.roles]
    return shown[0] if len(shown) == 1 else {}


def _stopped_teams(caller, teams) -> list[dict]:
    """Return the stopped teams, for the bar on top of every page."""
    stopped = [team for team in teams if team.stopped_at and team.pk in caller.roles]
    return [{"team": team, "may_lift": caller.can("lift_stop", team)} for team in stopped]


def _runner() -> dict:
    from workspaces.models import Runner  # as above

    runners = [row for row in Runner.objects.members().only("heartbeat_at", "parts") if row.runs("runner")]
    if any(runner.is_alive for runner in runners):
        return {"tone": "calm", "words": gettext("Runner OK")}
    if any(runner.heartbeat_at is None for runner in runners):
        return {"tone": "quiet", "words": gettext("Runner is starting")}
    return {"tone": "amber", "words": gettext("Runner does not answer")}
