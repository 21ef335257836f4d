"""What every page needs: who looks, where the feed stands, how many cards wait, whether the runner answers."""

from datetime import timedelta

from django.db.models import Max
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from dashboard.access import caller_of
from dashboard.live import cursor_of
from dashboard.models import Team

SILENT = timedelta(seconds=15)  # a heart that beats every few seconds and was not heard for so long


def page(request):
    context = {"csp_nonce": getattr(request, "csp_nonce", "")}
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return context
    caller = getattr(request, "caller", None) or SimpleLazyObject(lambda: caller_of(user))
    return context | {
        "caller": caller,
        "cursor": request.cursor if hasattr(request, "cursor") else SimpleLazyObject(lambda: cursor_of(caller)),
        "waiting_count": SimpleLazyObject(lambda: _waiting(caller)),
        "team": SimpleLazyObject(lambda: _only_team(caller)),
        "runner_state": SimpleLazyObject(_runner),
        "theme": request.COOKIES.get("handrail-theme", ""),
        "keys_off": request.COOKIES.get("handrail-keys") == "off",
    }


def _waiting(caller) -> int:
    from approvals.models import Action  # the site shows what the app counts; models must be loaded first

    return Action.objects.visible_to(caller).pending().filter(expires_at__gt=timezone.now()).count()


def _only_team(caller) -> Team | dict:
    """For the line on top; people of several teams read the name on each thing."""
    teams = list(Team.objects.visible_to(caller)[:2])
    return teams[0] if len(teams) == 1 else {}


def _runner() -> dict:
    from workspaces.models import Runner  # as above

    heard = Runner.objects.aggregate(heard=Max("heartbeat_at"))["heard"]
    if heard and timezone.now() - heard < SILENT:
        return {"tone": "calm", "words": "Runner works"}
    return {"tone": "amber", "words": "Runner does not answer"}
