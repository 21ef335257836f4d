"""The page *Drills*: how the team answered calls that admins planted, and for admins the form to plant one."""

from django import forms
from django.db.models import Count, Q
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from approvals.actions import drill_planting
from approvals.actions.drills import KINDS
from approvals.models import Drill, DrillOutcome
from dashboard.models import Team
from dashboard.web.pages import must, signed_in, take_form

MAX_OWN = 20


class DrillForm(forms.Form):
    """Which call is planted, and in whose name."""

    kind = forms.ChoiceField(
        label=gettext_lazy("Call"), choices=[(name, kind.label) for name, kind in KINDS.items()], initial="script"
    )
    agent = forms.CharField(
        label=gettext_lazy("In the name of"),
        max_length=80,
        initial="nightly-bot",
        help_text=gettext_lazy("An agent without a token; it is added if there is none of this name."),
    )


def _team(request) -> Team:
    """Return the team that the address names, else the caller's first by name; 404 if there is none."""
    teams = Team.objects.visible_to(request.caller).order_by("name")
    slug = request.GET.get("team")
    return get_object_or_404(teams, slug=slug) if slug else get_object_or_404(teams[:1])


@signed_in
@require_safe
def listing(request):
    return _page(request, _team(request))


def _page(request, team: Team, form: DrillForm | None = None):
    must(request.caller, "read_measures", team)
    drills = Drill.objects.filter(action__team=team)
    counted = drills.aggregate(
        planted=Count("pk"),
        open=Count("pk", filter=Q(outcome="")),
        **{name: Count("pk", filter=Q(outcome=name)) for name in DrillOutcome.values},
    )
    own = drills.filter(answered_by=request.user).select_related("action").order_by("-ended_at")[:MAX_OWN]
    return render(
        request,
        "approvals/drills.html",
        {
            "nav": "team",
            "measured": team,
            "counted": counted,
            "own": [(drill, KINDS[drill.kind]) for drill in own if drill.kind in KINDS],
            "form": (form or DrillForm()) if request.caller.can("plant_drills", team) else None,
        },
    )


@signed_in
@require_POST
def plant(request):
    """Plant a drill in one team."""
    team = _team(request)
    must(request.caller, "plant_drills", team)

    def do(fields):
        drill_planting.plant(team, fields["kind"], fields["agent"], by=request.user)

    return take_form(
        request,
        DrillForm(request.POST),
        do,
        shown=lambda form: _page(request, team, form),
        then=f"{reverse('drills')}?team={team.slug}",
        at="agent",
        say=gettext("Planted. It waits among the approvals like any other call."),
    )
