"""Pages of environments: the list, one of them, and the form that saves the next version."""

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from dashboard.models import Team
from dashboard.problems import Problem
from dashboard.web.pages import READ_OR_WRITE, carry_out, must, parameters, signed_in
from workspaces import secrets
from workspaces.models import Environment, Workspace
from workspaces.pages.environment_form import EnvironmentForm
from workspaces.pages.forms import DRIVERS
from workspaces.pages.header import find
from workspaces.provisioning import devcontainer, images, isolation, presets
from workspaces.services import environments
from workspaces.services.environments import pulled, suggested

REACHES = {"setup": gettext_lazy("Hosts allowed for setup"), "agent": gettext_lazy("Hosts allowed for the agent")}


def _teams_to_manage(caller) -> list[Team]:
    return [t for t in Team.objects.visible_to(caller).order_by("name") if caller.can("manage_environments", t)]


@signed_in
@require_safe
def index(request):
    caller = request.caller
    found = environments.newest(caller.team_ids).order_by("name", "team__name")[:200]
    context = {"nav": "environments", "environments": found, "may_add": bool(_teams_to_manage(caller))}
    return render(request, "workspaces/environments.html", context)


def _find(request, pk) -> Environment:
    return get_object_or_404(
        Environment.objects.visible_to(request.caller).select_related("team", "home_layer__former"), pk=pk
    )


@signed_in
@require_safe
def environment(request, pk):
    found = _find(request, pk)
    versions = Environment.objects.filter(team=found.team, name=found.name).order_by("-version")
    users = Workspace.objects.visible_to(request.caller).kept().filter(environment__in=versions)
    context = {
        "nav": "environments",
        "environment": found,
        "versions": versions[:30],
        "newest": versions[0],
        "users": users.select_related("environment", "team").order_by("key")[:50],
        "limits": environments.limits_of(found),
        "secrets": secrets.statuses(found),
        "hosts": [(words, found.egress.get(phase) or []) for phase, words in REACHES.items()],
        "default_image": images.DEFAULT,
        "where": DRIVERS.get(found.driver, found.driver),
        "may_edit": request.caller.can("manage_environments", found.team),
        "may_be_pulled": found == versions[0] and pulled.may_be_pulled(found),
        "pull": pulled.last(found),
    }
    return render(request, "workspaces/environment.html", context)


@signed_in
@require_POST
def pull_image(request, pk):
    """Request the image that the environment names by a tag."""
    found = _find(request, pk)
    must(request.caller, "manage_environments", found.team)
    return carry_out(
        request,
        lambda: pulled.ask(found, by=request.caller.actor),
        then=reverse("environment", args=[pk]),
        say=lambda operation: gettext("The image is being pulled. This page says when it is there."),
    )


@signed_in
@READ_OR_WRITE
def new(request):
    teams = _teams_to_manage(request.caller)
    if not teams:
        must(request.caller, "manage_environments", None)
    preset = presets.BY_NAME.get(request.GET.get("preset", ""))
    start = preset and Environment(**preset.fields_with(isolation.available()))
    form = EnvironmentForm(request.POST or None, teams=teams, start=start)
    return _save(request, form) or _form_page(request, form, presets=presets.PRESETS, chosen=preset)


@signed_in
@READ_OR_WRITE
def from_devcontainer(request):
    """Read a devcontainer.json that was pasted, and show the form of a new environment with what it says."""
    teams = _teams_to_manage(request.caller)
    if not teams:
        must(request.caller, "manage_environments", None)
    text = request.POST.get("text", "")
    context = {"nav": "environments", "text": text}
    if request.method == "POST":
        try:
            reading = devcontainer.read(text)
        except Problem as problem:
            return render(request, "workspaces/environment_devcontainer.html", context | {"refused": problem.detail})
        form = EnvironmentForm(teams=teams, start=Environment(name=reading.name, **reading.fields))
        return _form_page(request, form, reading=reading)
    return render(request, "workspaces/environment_devcontainer.html", context)


@signed_in
@READ_OR_WRITE
def edit(request, pk):
    base = _find(request, pk)
    must(request.caller, "manage_environments", base.team)
    file = _suggestion(request, base)
    shown = file and suggested.with_suggestion(base, file["fields"])
    form = EnvironmentForm(request.POST or None, teams=[base.team], base=base, shown=shown)
    return _save(request, form, base) or _form_page(request, form, base, file=file)


def _suggestion(request, base: Environment) -> dict | None:
    """Return what a file of a workspace of this environment suggests, if the address names one."""
    wanted = parameters(request, "workspace", "file")
    if request.method != "GET" or not wanted["workspace"]:
        return None
    rows = Workspace.objects.visible_to(request.caller).filter(environment__team=base.team, environment__name=base.name)
    try:
        workspace = get_object_or_404(rows, pk=wanted["workspace"])
    except ValidationError:
        raise Http404("no such workspace") from None
    return suggested.find(workspace, wanted["file"])


def _save(request, form, base=None):
    """Save and return a redirect to the saved version; None if nothing was posted or the form has errors."""
    if request.method != "POST" or not form.is_valid():
        return None
    team, name = (base.team, base.name) if base else (form.cleaned_data["team"], form.cleaned_data["name"])
    try:
        made = environments.save(team, name, form.fields_of_version(), base=base, by=request.caller.actor)
    except Problem as problem:
        form.add_error(None, problem.detail)
        return None
    said = gettext("Version %(version)s of %(name)s saved.") % {"version": made.version, "name": name}
    messages.success(request, gettext("Nothing was changed.") if made == base else said)
    return redirect("environment", made.pk)


def _form_page(request, form, base=None, **more):
    context = {"nav": "environments", "form": form, "base": base} | more
    return render(request, "workspaces/environment_edit.html", context)


@signed_in
@require_POST
def adopt(request, team, key):
    """Move a workspace to the newest version of its environment."""
    workspace = find(request, team, key)
    must(request.caller, "manage_environments", workspace.team_id)
    return carry_out(
        request,
        lambda: environments.adopt(workspace, by=request.caller.actor),
        then=reverse("workspace-checks", args=[team, key]),
        say=lambda made: (
            gettext("%(key)s now uses version %(version)s: checks immediately, limits from the next start.")
            % {"key": key, "version": made.version}
        ),
    )
