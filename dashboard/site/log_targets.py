"""Where a team's log is sent as it happens: the targets, what they have got, and what is wrong with them."""

from django import forms
from django.core.exceptions import PermissionDenied
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from approvals.models import LogTarget, TargetKind
from approvals.notify.log_targets import targets
from dashboard.models import Team
from dashboard.people.forms import AS_CODE
from dashboard.web.pages import carry_out, must, shown_once, signed_in, take_form


@signed_in
@require_safe
def listing(request):
    return _page(request)


class TargetForm(forms.Form):
    """Where a team's log is sent to."""

    kind = forms.ChoiceField(
        label=gettext_lazy("Kind"),
        choices=[
            (TargetKind.WEBHOOK, gettext_lazy("Webhook, signed")),
            (TargetKind.SYSLOG, gettext_lazy("Syslog")),
            (TargetKind.FOLDER, gettext_lazy("A folder of this machine (JSON lines)")),
            (TargetKind.ADMINS, gettext_lazy("Alerts to the devices and channels of the admins")),
        ],
    )
    address = forms.CharField(
        label=gettext_lazy("Address"),
        required=False,
        max_length=500,
        widget=forms.TextInput(attrs=AS_CODE | {"placeholder": "https://siem.example.org/handrail"}),
        help_text=gettext_lazy(
            "Of a webhook an https address, of syslog tls://HOST:PORT or tcp://HOST:PORT; else empty."
        ),
    )
    only_alerts = forms.BooleanField(label=gettext_lazy("Alerts only"), required=False)
    from_start = forms.BooleanField(label=gettext_lazy("Send the whole log first"), required=False)

    def __init__(self, data=None, *, team: Team):
        super().__init__(data, auto_id=f"%s-{team.slug}")
        self.team = team
        self.fields["address"].is_given = True  # its help says when it is empty


def _page(request, refused: TargetForm | None = None):
    teams = Team.objects.visible_to(request.caller).order_by("name")
    managed = [team for team in teams if request.caller.can("manage_log_targets", team)]
    if not managed:
        raise PermissionDenied("manage_log_targets")
    of_teams: dict = {team.pk: [] for team in managed}
    for target in LogTarget.objects.filter(team__in=managed).order_by("created_at"):
        of_teams[target.team_id].append(target)
    key = shown_once(request, "log_target_key") or ""
    context = {"nav": "log-targets", "key": key}
    context["teams"] = [
        (team, of_teams[team.pk], refused if refused and refused.team == team else TargetForm(team=team))
        for team in managed
    ]
    response = render(request, "dashboard/log_targets.html", context)
    if key:
        response["Cache-Control"] = "no-store"
    return response


@signed_in
@require_POST
def add(request):
    """Add a target; what is wrong with its address stands at the field."""
    team = get_object_or_404(Team.objects.visible_to(request.caller), slug=request.POST.get("team", ""))
    must(request.caller, "manage_log_targets", team)

    def made(fields):
        _, key = targets.add(team, fields.pop("kind"), fields.pop("address"), **fields, by=request.caller.actor)
        if key:
            request.session["log_target_key"] = key

    return take_form(
        request,
        TargetForm(request.POST, team=team),
        made,
        shown=lambda form: _page(request, form),
        then=reverse("log-targets"),
        at="address",
    )


def _target(request, pk) -> LogTarget:
    found = get_object_or_404(LogTarget.objects.visible_to(request.caller).select_related("team"), pk=pk)
    must(request.caller, "manage_log_targets", found.team)
    return found


@signed_in
@require_POST
def switch(request, pk):
    target, active = _target(request, pk), request.POST.get("active") == "1"

    def change():
        targets.switch(target, active, by=request.caller.actor)

    said = gettext("It is on.") if active else gettext("It is off; switched on again, it gets what it missed.")
    return carry_out(request, change, then="/log/targets/", say=said)


@signed_in
@require_POST
def remove(request, pk):
    target = _target(request, pk)

    def end():
        targets.remove(target, by=request.caller.actor)

    return carry_out(request, end, then="/log/targets/", say=gettext("The target is removed."))
