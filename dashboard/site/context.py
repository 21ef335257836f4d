"""Context processor: what every page's frame needs, such as the caller, the feed's cursor and the runner's state."""

from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext

from dashboard.access import caller_of
from dashboard.background_requests import takes_parts
from dashboard.feed import cursor_of
from dashboard.models import Team


def page(request):
    """Return the variables of every template; those that need the database are lazy."""
    context = {"csp_nonce": getattr(request, "csp_nonce", "")}
    if takes_parts(request):
        # A notice is shown once. These requests do not show notices, so keep them for the next page that is opened.
        context["messages"] = []
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return context
    caller = getattr(request, "caller", None) or SimpleLazyObject(lambda: caller_of(user))
    return context | {
        "caller": caller,
        "cursor": request.cursor if hasattr(request, "cursor") else SimpleLazyObject(lambda: cursor_of(caller)),
        "waiting_count": SimpleLazyObject(lambda: _waiting(caller)),
        "team": SimpleLazyObject(lambda: _only_team(caller)),
        "stopped_teams": SimpleLazyObject(lambda: _stopped_teams(caller)),
        "runner_state": SimpleLazyObject(_runner),
        "theme": request.COOKIES.get("handrail-theme", ""),
        "session_mark": _session_mark(request),
        "keys_off": request.COOKIES.get("handrail-keys") == "off",
    }


def _session_mark(request) -> str:
    """Return what tells one session from another in the page, and cannot be used as its cookie."""
    return salted_hmac("dashboard.site.context", request.session.session_key or "").hexdigest()[:16]


def _waiting(caller) -> int:
    from approvals.models import Action  # here, after the apps and their models are loaded

    return Action.objects.visible_to(caller).pending().filter(expires_at__gt=timezone.now()).count()


def _only_team(caller) -> Team | dict:
    """Return the caller's team for the header; {} with several teams, since each object then names its own."""
    teams = list(Team.objects.visible_to(caller)[:2])
    return teams[0] if len(teams) == 1 else {}


def _stopped_teams(caller) -> list[dict]:
    """Return the stopped teams, for the bar on top of every page."""
    teams = Team.objects.visible_to(caller).filter(stopped_at__isnull=False).select_related("stopped_by")
    return [{"team": team, "may_lift": caller.can("lift_stop", team)} for team in teams]


def _runner() -> dict:
    from workspaces.models import Runner  # as above

    runners = list(Runner.objects.only("heartbeat_at"))
    if any(runner.is_alive for runner in runners):
        return {"tone": "calm", "words": gettext("Runner OK")}
    if any(runner.heartbeat_at is None for runner in runners):
        return {"tone": "quiet", "words": gettext("Runner is starting")}
    return {"tone": "amber", "words": gettext("Runner does not answer")}
