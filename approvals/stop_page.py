"""Stop everything: the page before, the stop, and its end."""

from django.db.models import Q
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from approvals import endings
from approvals.models import Action, Status
from dashboard.models import Team
from dashboard.pages import carry_out, must, signed_in
from workspaces.models import Command, Effect

READ_OR_WRITE = require_http_methods(["GET", "HEAD", "POST"])


@signed_in
@READ_OR_WRITE
def stop(request):
    """The page before, and the stop itself."""
    caller = request.caller
    if request.method == "POST":
        team = get_object_or_404(Team.objects.visible_to(caller), slug=request.POST.get("team", ""))
        must(caller, "stop_everything", team)
        return carry_out(
            request, lambda: endings.stop_everything(team, caller=caller), then=reverse("stop"), say=_stopped_words
        )
    teams = Team.objects.visible_to(caller).select_related("stopped_by").order_by("name")
    return render(request, "approvals/stop.html", {"nav": "stop", "teams": [_stop_facts(caller, t) for t in teams]})


def _stop_facts(caller, team) -> dict:
    commands = Command.objects.filter(workspace__team=team, effect__in=Effect.objects.open())
    live = Q(status=Status.PENDING) | Q(status=Status.APPROVED, consumed_at=None)
    return {
        "team": team,
        "commands": commands.count(),
        "waiting": Action.objects.filter(live, team=team).count(),
        "unclear": Action.objects.filter(team=team, status=Status.UNCERTAIN).count(),
        "may_stop": caller.can("stop_everything", team),
        "may_lift": caller.can("lift_stop", team),
    }


def _stopped_words(done) -> str:
    commands, withdrawn = done["commands"], done["withdrawn"]
    return f"Stopped. Nothing is allowed. {commands} running commands end now, {withdrawn} actions were withdrawn."


@signed_in
@require_POST
def lift(request):
    team = get_object_or_404(Team.objects.visible_to(request.caller), slug=request.POST.get("team", ""))
    must(request.caller, "lift_stop", team)
    return carry_out(
        request,
        lambda: endings.lift_stop(team, caller=request.caller),
        then=reverse("stop"),
        say="The stop is lifted. What was withdrawn stays withdrawn; agents can ask again.",
    )
