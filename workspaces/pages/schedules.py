"""Pages of schedules: the list, one with its next times and its history, the form, and a run beside the one before."""

from django import forms
from django.db.models import OuterRef, Subquery
from django.http import Http404
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from dashboard.database import clock
from dashboard.models import Team
from dashboard.problems import Problem
from dashboard.web.lookup import Order
from dashboard.web.pages import (
    READ_OR_WRITE,
    Slice,
    ask_first,
    carry_out,
    must,
    parameters,
    signed_in,
    take_form,
)
from workspaces.models import Schedule, ScheduledRun, ScheduledState
from workspaces.pages.schedule_form import ScheduleForm
from workspaces.services import schedules
from workspaces.services.schedules import cron

TONES = {
    ScheduledState.WAITING: "accent",
    ScheduledState.RUNNING: "accent",
    ScheduledState.PASSED: "calm",
    ScheduledState.FAILED: "red",
    ScheduledState.STOPPED: "amber",
    ScheduledState.UNCLEAR: "amber",
    ScheduledState.NOT_STARTED: "red",
    ScheduledState.SKIPPED: "quiet",
}


class MoreMinutesForm(forms.Form):
    minutes = forms.IntegerField(
        label=gettext_lazy("Minutes until it asks again"), min_value=1, max_value=schedules.MAX_MINUTES
    )


def _teams_to_manage(caller) -> list[Team]:
    return [t for t in Team.objects.visible_to(caller).order_by("name") if caller.can("manage_schedules", t)]


@signed_in
@require_safe
def index(request):
    """List schedules with how their last run ended, those of one workspace or all."""
    chosen = parameters(request, "workspace")
    newest = ScheduledRun.objects.filter(schedule=OuterRef("pk")).exclude(state=ScheduledState.SKIPPED)
    last = {name: Subquery(newest.order_by("-due_at").values(name)[:1]) for name in ("state", "due_at")}
    rows = Schedule.objects.visible_to(request.caller).select_related("team", "workspace")
    rows = rows.annotate(last_state=last["state"], last_due_at=last["due_at"])
    if chosen["workspace"]:
        rows = rows.filter(workspace__key=chosen["workspace"])
    page = Slice(request, rows)
    context = {
        "nav": "schedules",
        "page": page,
        "rows": [(each, cron.in_words(each.cron), _shown_state(each.last_state)) for each in page],
        "may_add": bool(_teams_to_manage(request.caller)),
        "chosen": chosen["workspace"],
    }
    return render(request, "workspaces/schedules.html", context)


def _shown_state(state: str | None) -> tuple[str, str]:
    """Return (label, tone)."""
    return (ScheduledState(state).label, TONES[state]) if state else ("", "quiet")


def _find(request, pk) -> Schedule:
    try:
        return schedules.find(request.caller, pk)
    except Problem as problem:
        raise Http404(problem.detail) from None


def _to_manage(request, pk) -> Schedule:
    found = _find(request, pk)
    must(request.caller, "manage_schedules", found.team_id)
    return found


@signed_in
@require_safe
def schedule(request, pk):
    """Show a schedule, its next five times and its runs."""
    found = _find(request, pk)
    runs = found.runs.select_related("workspace__team", "command", "asked_by")
    page = Slice(request, runs, by=Order("due_at"), size=25)
    context = {
        "nav": "schedules",
        "schedule": found,
        "words": cron.in_words(found.cron),
        "next": [] if found.paused_at else cron.times(found.cron, found.zone, clock.now()),
        "page": page,
        "rows": [(run, *_shown_state(run.state)) for run in page],
        "may_manage": request.caller.can("manage_schedules", found.team_id),
        "is_open": any(run.is_open for run in page),
    }
    return render(request, "workspaces/schedule.html", context)


@signed_in
@READ_OR_WRITE
def new(request):
    teams = _teams_to_manage(request.caller)
    if not teams:
        must(request.caller, "manage_schedules", None)
    form = ScheduleForm(request.POST or None, caller=request.caller, teams=teams, place=_place(request, teams))
    if request.method != "POST":
        return _shown(request, form)
    return _save(request, form, lambda wish: schedules.add(form.team, wish, caller=request.caller))


def _place(request, teams: list[Team]) -> str:
    """Return the workspace of the link to this form, as a value of the form."""
    slug, _, key = request.GET.get("workspace", "").partition("/")
    return next((f"workspace:{team.pk}:{key}" for team in teams if team.slug == slug), "")


@signed_in
@READ_OR_WRITE
def edit(request, pk):
    found = _to_manage(request, pk)
    form = ScheduleForm(request.POST or None, caller=request.caller, teams=[found.team], schedule=found)
    if request.method != "POST":
        return _shown(request, form, found)
    return _save(request, form, lambda wish: schedules.change(found, wish, caller=request.caller), found)


def _save(request, form, do, found=None):
    return take_form(
        request,
        form,
        lambda cleaned: do(form.wish()),
        shown=lambda form: _shown(request, form, found),
        then=lambda saved: reverse("schedule", args=[saved.pk]),
        at="command",
        otherwise=request.path,
    )


def _shown(request, form, found=None):
    context = {"nav": "schedules", "form": form, "schedule": found}
    return render(request, "workspaces/schedule_edit.html", context)


def _act(request, pk, do, say: str = "", then: str = ""):
    found = _to_manage(request, pk)
    here = reverse("schedule", args=[pk])
    return carry_out(request, lambda: do(found, caller=request.caller), then=then or here, otherwise=here, say=say)


@signed_in
@require_POST
def pause(request, pk):
    return _act(request, pk, schedules.pause, gettext("Paused. No more runs start."))


@signed_in
@require_POST
def resume(request, pk):
    return _act(request, pk, schedules.resume, gettext("Resumed."))


@signed_in
@READ_OR_WRITE
def delete(request, pk):
    """Ask before a schedule is deleted; a POST deletes it."""
    if request.method != "POST":
        return ask_first(
            request,
            title=gettext("Delete the schedule %(name)s?") % {"name": _to_manage(request, pk).name},
            says=gettext("Its history goes with it. Commands and workspaces of its runs stay."),
            verb=gettext("Delete this schedule"),
            back=reverse("schedule", args=[pk]),
        )
    return _act(request, pk, schedules.delete, gettext("Deleted, with its history."), reverse("schedules"))


@signed_in
@require_POST
def run_now(request, pk):
    found = _to_manage(request, pk)
    return carry_out(
        request,
        lambda: schedules.run_now(found, caller=request.caller),
        then=lambda run: reverse("scheduled-run", args=[run.pk]),
        otherwise=reverse("schedule", args=[pk]),
    )


# A run ----------------------------------------------------------------------------------------------------------------


def _find_run(request, pk) -> ScheduledRun:
    mine = ScheduledRun.objects.filter(schedule__in=Schedule.objects.visible_to(request.caller))
    related = ("schedule__team", "schedule__owner", "workspace__team", "command__operation", "asked_by")
    related += ("command__workspace",)
    return get_object_or_404(mine.select_related(*related), pk=pk)


@signed_in
@require_safe
def run(request, pk):
    """Show a run and how it differs from the one before; what its command printed is on the command's page."""
    found = _find_run(request, pk)
    form = MoreMinutesForm(initial={"minutes": found.schedule.budget_minutes or 30})
    return _run_page(request, found, form)


def _run_page(request, found: ScheduledRun, form):
    context = {
        "nav": "schedules",
        "run": found,
        "schedule": found.schedule,
        "compared": schedules.compare(found),
        "may_manage": request.caller.can("manage_schedules", found.schedule.team_id),
        "form": form,
    }
    context["state"], context["tone"] = _shown_state(found.state)
    return render(request, "workspaces/scheduled_run.html", context)


def _run_to_manage(request, pk) -> ScheduledRun:
    found = _find_run(request, pk)
    must(request.caller, "manage_schedules", found.schedule.team_id)
    return found


@signed_in
@require_POST
def let_run(request, pk):
    """Answer a met budget with more minutes."""
    found = _run_to_manage(request, pk)
    return take_form(
        request,
        MoreMinutesForm(request.POST),
        lambda cleaned: schedules.let_run(found, cleaned["minutes"], caller=request.caller),
        shown=lambda form: _run_page(request, found, form),
        then=reverse("scheduled-run", args=[pk]),
        at="minutes",
        say=gettext("It runs on. You are asked again when these minutes are over."),
    )


@signed_in
@require_POST
def stop_run(request, pk):
    found, here = _run_to_manage(request, pk), reverse("scheduled-run", args=[pk])
    return carry_out(request, lambda: schedules.stop(found, caller=request.caller), then=here)
