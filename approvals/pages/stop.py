"""Stop everything: a page with what would end, the stop itself, and lifting it."""

from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext, ngettext_lazy
from django.views.decorators.http import require_POST

from approvals.actions import emergency_stop
from approvals.models import Action, Status
from dashboard.models import Team
from dashboard.text.texts import and_last
from dashboard.web.pages import READ_OR_WRITE, carry_out, must, signed_in


@signed_in
@READ_OR_WRITE
def stop(request):
    """Show what a stop would end; on POST stop the team."""
    caller = request.caller
    if request.method == "POST":
        team = get_object_or_404(Team.objects.visible_to(caller), slug=request.POST.get("team", ""))
        must(caller, "stop_everything", team)
        return carry_out(
            request,
            lambda: emergency_stop.stop_everything(team, caller=caller),
            then=reverse("stop"),
            say=_stopped_text,
        )
    teams = Team.objects.visible_to(caller).select_related("stopped_by").order_by("name")
    return render(request, "approvals/stop.html", {"nav": "stop", "teams": [_stop_facts(caller, t) for t in teams]})


def _stop_facts(caller, team) -> dict:
    found = emergency_stop.preview(team)
    return {
        "team": team,
        "ends": _counts_text(found),
        "still_open": any(found.values()),
        "unclear": Action.objects.filter(team=team, status=Status.UNCERTAIN).count(),
        "may_stop": caller.can("stop_everything", team),
        "may_lift": caller.can("lift_stop", team),
    }


NAMES = {
    "waiting": ngettext_lazy("%(n)s request", "%(n)s requests", "n"),
    "unused": ngettext_lazy("%(n)s unused approval", "%(n)s unused approvals", "n"),
    "commands": ngettext_lazy("%(n)s command", "%(n)s commands", "n"),
    "services": ngettext_lazy("%(n)s service", "%(n)s services", "n"),
    "terminals": ngettext_lazy("%(n)s terminal", "%(n)s terminals", "n"),
    "workspaces": ngettext_lazy("%(n)s workspace", "%(n)s workspaces", "n"),
}


def _counts_text(counts: dict[str, int]) -> str:
    """Format counts, for example as "3 requests, 1 command and 2 workspaces"; "nothing" if all are 0."""
    return and_last([words % {"n": counts[key]} for key, words in NAMES.items() if counts[key]]) or gettext("nothing")


def _stopped_text(done) -> str:
    words = gettext("Everything is stopped: %(what)s ended. Nothing new starts until a lead resumes.")
    return words % {"what": _counts_text(done)}


@signed_in
@require_POST
def lift(request):
    team = get_object_or_404(Team.objects.visible_to(request.caller), slug=request.POST.get("team", ""))
    must(request.caller, "lift_stop", team)
    return carry_out(
        request,
        lambda: emergency_stop.lift_stop(team, caller=request.caller),
        then=reverse("stop"),
        say=gettext("Resumed. Cancelled requests stay cancelled; agents can ask again."),
    )
