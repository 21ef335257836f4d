"""Retention in the Django admin: one page for each team, for operators, for a team's admins, and for who may see it.

A person with the permission *view* or *change retention of a team* sees or sets every team's. An admin of a team needs
no permission of the site: that team's page is open to them, and no other.
"""

from datetime import datetime

from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Q
from django.http import Http404, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.utils.decorators import method_decorator
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.http import require_POST

from dashboard.database import clock
from dashboard.models import Actor, Membership, Role
from dashboard.problems import Problem
from dashboard.web.pages import as_uuid
from workspaces.admin.retention.forms import HoldForm, PutOffForm, RulesForm
from workspaces.models import Hold, TeamRetention
from workspaces.services import retention
from workspaces.services.retention import confirming, holds, sweeps
from workspaces.services.retention.preview import sweep_on

VIEW, CHANGE = "workspaces.view_teamretention", "workspaces.change_teamretention"


def own_teams(user):
    """Return the ids of the teams that the person is admin of."""
    return Membership.objects.filter(user=user, role=Role.ADMIN).values("team")


@admin.register(TeamRetention)
class TeamRetentionAdmin(admin.ModelAdmin):
    list_display = ["name", "own_rules", "holds_in_force", "next_sweep"]
    search_fields = ["name", "slug"]
    ordering = ["name"]

    def get_queryset(self, request):
        active = Q(holds__released_at=None) & (Q(holds__until=None) | Q(holds__until__gt=clock.now()))
        teams = TeamRetention.objects.annotate(
            rules=Count("retention_rules", distinct=True), held=Count("holds", filter=active, distinct=True)
        )
        return teams if self._sees_all(request) else teams.filter(pk__in=own_teams(request.user))

    def _sees_all(self, request) -> bool:
        return request.user.has_perm(VIEW) or request.user.has_perm(CHANGE)

    def has_module_permission(self, request):
        return self._sees_all(request) or own_teams(request.user).exists()

    def has_view_permission(self, request, obj=None):
        return self.has_change_permission(request, obj) or self._sees_all(request)

    def has_change_permission(self, request, obj=None):
        own = own_teams(request.user)
        return request.user.has_perm(CHANGE) or (own.filter(team=obj.pk) if obj else own).exists()

    def has_add_permission(self, request):
        return False

    def has_delete_permission(self, request, obj=None):
        return False

    @admin.display(description="own rules", ordering="rules")
    def own_rules(self, team):
        return team.rules or "defaults"

    @admin.display(description="holds", ordering="held")
    def holds_in_force(self, team):
        return team.held

    @admin.display(description="next sweep")
    def next_sweep(self, team):
        return f"daily at {settings.HANDRAIL_SWEEP_HOUR:02}:00 UTC"

    # One team ------------------------------------------------------------------------------------------------------

    def get_urls(self):
        def at(address, view):
            wrapped = self.admin_site.admin_view(require_POST(view))
            return path(f"<uuid:pk>/{address}/", wrapped, name=f"retention-{address}")

        own = [
            at("run", self.run),
            at("dry-run", self.dry_run),
            at("stop", self.stop),
            at("put-off", self.put_off),
            at("hold", self.hold),
            at("release", self.release),
        ]
        return own + super().get_urls()

    def _team(self, request, pk, *, to_change: bool):
        """Return the team. 404 for one that the person may not see, 403 if they may only look."""
        team = self.get_queryset(request).filter(pk=as_uuid(str(pk))).first()
        if team is None:
            raise Http404
        if to_change and not self.has_change_permission(request, team):
            raise PermissionDenied
        return team

    @method_decorator(csrf_protect)
    def change_view(self, request, object_id, form_url="", extra_context=None):
        team = self._team(request, object_id, to_change=request.method == "POST")
        rules, environment = retention.Rules.of(team), request.GET.get("environment", "").replace("\0", "")
        form = RulesForm(request.POST if request.method == "POST" else None, rules=rules, environment=environment)
        proposal = None
        if request.method == "POST" and form.is_valid():
            try:
                proposal = confirming.propose(team, form.changes())
                if self._is_confirmed(request, proposal):
                    saved = confirming.save(team, proposal, by=Actor.person(request.user))
                    messages.success(request, "Saved." if saved else "Nothing changed.")
                    return HttpResponseRedirect(request.get_full_path())
            except Problem as problem:
                form.problem = problem.detail
        return self._page(request, team, form, proposal, environment)

    def _is_confirmed(self, request, proposal) -> bool:
        if "preview" in request.POST:
            return False
        return not proposal.needs_confirmation or request.POST.get("confirm") == proposal.digest

    def _page(self, request, team, form, proposal, environment):
        may_change = self.has_change_permission(request, team)
        on, at = self._chosen_day(request)
        held = Hold.objects.active().filter(team=team).select_related("team", "workspace", "snapshot")
        context = {
            **self.admin_site.each_context(request),
            "title": f"Retention of {team}",
            "opts": self.model._meta,
            "team": team,
            "form": form,
            "proposal": proposal,
            "preview": proposal.preview if proposal else retention.preview(team, at=at),
            "on": on,
            "environment": environment,
            "environments": sorted(set(team.environments.values_list("name", flat=True))),
            "own": retention.Rules.of(team).environments(),
            "holds": held.order_by("-created_at"),
            "sweeps": sweeps.of_team(team)[:10],
            "may_change": may_change,
            "hold_form": HoldForm(team=team),
            "put_off_form": PutOffForm(),
        }
        return render(request, "admin/workspaces/teamretention/change_form.html", context)

    def _chosen_day(self, request) -> tuple[str, datetime | None]:
        """Return the day of the preview that was asked for, and its sweep; None for the next one, or no such day."""
        on = request.GET.get("on", "")
        try:
            return (on, sweep_on(on)) if on else ("", None)
        except Problem as problem:
            messages.error(request, problem.detail)
            return "", None

    def _act(self, request, pk, do, say: str):
        """Call `do(team, by)` and return to the team's page, with its Problem or `say` as a message."""
        team = self._team(request, pk, to_change=True)
        try:
            do(team, Actor.person(request.user))
            messages.success(request, say)
        except Problem as problem:
            messages.error(request, problem.detail)
        return HttpResponseRedirect(reverse("admin:workspaces_teamretention_change", args=[team.pk]))

    def run(self, request, pk):
        return self._act(request, pk, lambda team, by: sweeps.request(team, by=by), "The sweep is queued.")

    def dry_run(self, request, pk):
        say = "The dry run is queued. It changes nothing."
        return self._act(request, pk, lambda team, by: sweeps.request(team, by=by, dry_run=True), say)

    def stop(self, request, pk):
        return self._act(request, pk, lambda team, by: sweeps.stop(team, by=by), "The sweep stops after its batch.")

    def put_off(self, request, pk):
        form = PutOffForm(request.POST)
        if not form.is_valid():
            return self._act(request, pk, lambda team, by: form.refuse(), "")
        days, reason = form.cleaned_data["days"], form.cleaned_data["reason"]
        say = f"Put off: nothing of this team is deleted for {days} days."
        return self._act(request, pk, lambda team, by: sweeps.put_off(team, days, by=by, reason=reason), say)

    def hold(self, request, pk):
        def do(team, by):
            form = HoldForm(request.POST, team=team)
            if not form.is_valid():
                form.refuse()
            holds.hold(team, by=by, **form.wish())

        return self._act(request, pk, do, "Held: nothing deletes it.")

    def release(self, request, pk):
        def do(team, by):
            row = Hold.objects.filter(team=team, pk=as_uuid(request.POST.get("hold", ""))).first()
            if row is None:
                raise Http404
            holds.release(row, by=by)

        return self._act(request, pk, do, "Released.")
