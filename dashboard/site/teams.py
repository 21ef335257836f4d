"""The Teams page: create, rename and archive teams; and which of several the pages show."""

from django.core.exceptions import PermissionDenied
from django.db.models import Count, Q
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from approvals.actions import emergency_stop
from dashboard.models import Team
from dashboard.people import teams
from dashboard.people.forms import NewTeamForm, TeamNameForm
from dashboard.web.pages import came_from, carry_out, must, signed_in, take_form


@signed_in
@require_safe
def listing(request):
    return _page(request)


def _page(request, *, renamed: TeamNameForm | None = None, new: NewTeamForm | None = None):
    """Render the page, with the form that was refused in the place of its empty one."""
    caller = request.all_teams
    people = Count("memberships", filter=Q(memberships__user__is_active=True), distinct=True)
    found = Team.objects.visible_to(caller).annotate(people=people).order_by("archived_at", "name")
    rows = [
        (
            team,
            caller.can("manage_team", team),
            renamed if renamed and renamed.team == team else TeamNameForm(team=team),
        )
        for team in found
    ]
    context = {"nav": "team", "rows": rows, "may_create": request.user.is_superuser}
    context["new"] = new or NewTeamForm(auto_id="new-%s")
    return render(request, "dashboard/teams.html", context)


@signed_in
@require_POST
def create(request):
    """Create a team; superusers only. A refused name is shown at its field."""
    if not request.user.is_superuser:
        raise PermissionDenied("create a team")

    def make(fields):
        made = teams.create(fields["name"], fields["slug"], by=request.user)
        teams.show(request.session, None)
        return made

    return take_form(
        request,
        NewTeamForm(request.POST, auto_id="new-%s"),
        make,
        shown=lambda form: _page(request, new=form),
        then=reverse("teams"),
        at="slug",
        say=gettext("The team is created."),
    )


def _team(request) -> Team:
    found = get_object_or_404(Team.objects.visible_to(request.caller), slug=request.POST.get("team", ""))
    must(request.caller, "manage_team", found)
    return found


@signed_in
@require_POST
def rename(request):
    team = _team(request)
    return take_form(
        request,
        TeamNameForm(request.POST, team=team),
        lambda fields: teams.rename(team, fields["name"], by=request.caller.actor),
        shown=lambda form: _page(request, renamed=form),
        then=reverse("teams"),
        at="name",
        say=gettext("The name is saved."),
    )


@signed_in
@require_POST
def archive(request):
    """Stop everything in a team and archive it: nothing runs, everything stays readable."""
    team = _team(request)

    def end():
        if team.stopped_at is None:
            emergency_stop.stop_everything(team, caller=request.caller)
        teams.archive(team, by=request.caller.actor)

    return carry_out(request, end, then=reverse("teams"), say=gettext("%(team)s is archived.") % {"team": team})


@signed_in
@require_POST
def unarchive(request):
    team = _team(request)

    def begin():
        teams.unarchive(team, by=request.caller.actor)

    said = gettext("%(team)s is no longer archived. A lead or admin resumes it.") % {"team": team}
    return carry_out(request, begin, then=reverse("teams"), say=said)


@signed_in
@require_POST
def show(request):
    """Choose the team whose things pages list; all without a name."""
    slug = request.POST.get("team", "")
    chosen = get_object_or_404(Team.objects.visible_to(request.caller), slug=slug) if slug else None
    teams.show(request.session, chosen)
    return redirect(came_from(request, "/"))
