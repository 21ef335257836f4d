"""Pages of environments: the list, one of them, and the form that saves the next version."""

from django import forms
from django.contrib import messages
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.text import format_lazy
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from dashboard.models import Team
from dashboard.pages import READ_OR_WRITE, carry_out, must, signed_in
from dashboard.problems import Problem
from workspaces import secrets
from workspaces.drivers.base import PIDS
from workspaces.models import Environment, Workspace
from workspaces.pages.forms import CODE, DRIVERS
from workspaces.pages.header import find
from workspaces.provisioning import images, isolation
from workspaces.services import environments, network

MB = 1024**2
REACHES = {"setup": gettext_lazy("Hosts allowed for setup"), "agent": gettext_lazy("Hosts allowed for the agent")}
INITIAL = ("driver", "image", "minimum_isolation", "repository", "ref", "setup", "maintenance")
PLAIN = {"autocapitalize": "off", "autocomplete": "off", "spellcheck": "false"}


def _line(label: str, **more) -> forms.CharField:
    """Return an optional one-line field for addresses and names, without a phone keyboard's corrections."""
    attrs = PLAIN | {name: more.pop(name) for name in ("placeholder",) if name in more}
    return forms.CharField(label=label, required=False, widget=forms.TextInput(attrs=attrs), **more)


def _code(label: str, *, rows: int | None = None, placeholder: str = "", max_length: int = 100_000, **more):
    """Return an optional field of several lines, not stripped."""
    attrs = CODE | ({"rows": rows} if rows else {}) | ({"placeholder": placeholder} if placeholder else {})
    widget = forms.Textarea(attrs=attrs)
    return forms.CharField(label=label, required=False, strip=False, max_length=max_length, widget=widget, **more)


def _number(label: str, most: int, *, least: int = 1, **more) -> forms.IntegerField:
    return forms.IntegerField(label=label, required=False, min_value=least, max_value=most, **more)


class EnvironmentForm(forms.Form):
    """The form of an environment; `fields_of_version()` returns the `fields` for environments.save."""

    team = forms.ModelChoiceField(None, label=gettext_lazy("Team"), to_field_name="slug", empty_label=None)
    name = forms.RegexField(
        r"^[\w][\w .-]{0,79}\Z",
        label=gettext_lazy("Name"),
        error_messages={"invalid": gettext_lazy("Use letters, digits, spaces, dots and dashes.")},
        widget=forms.TextInput(attrs=PLAIN),
    )
    driver = forms.ChoiceField(label=gettext_lazy("Where it runs"))
    image = _line(
        gettext_lazy("Image"),
        max_length=200,
        help_text=gettext_lazy(
            "For containers: an image on the engine, or the path of an allowed folder with a Dockerfile. "
            "Default: handrail/base:bookworm. Images are never pulled automatically."
        ),
    )
    minimum_isolation = forms.ChoiceField(
        label=gettext_lazy("Minimum isolation"),
        required=False,
        choices=[
            ("", gettext_lazy("The isolation of the choice above")),
            *((level, level) for level in isolation.LEVELS),
        ],
        help_text=gettext_lazy("Workspaces won't start with weaker isolation."),
    )
    repository = _line(
        gettext_lazy("Git address"),
        max_length=500,
        help_text=gettext_lazy("Default source of new workspaces."),
    )
    ref = _line(gettext_lazy("Branch or commit"), max_length=200)
    setup = _code(
        gettext_lazy("Setup script"),
        help_text=gettext_lazy("Runs once with bash in each new workspace; can reach only the setup hosts below."),
    )
    maintenance = _code(
        gettext_lazy("Maintenance script"),
        help_text=gettext_lazy(
            "Runs with bash each time a workspace resumes, before anything else; can reach the agent's hosts."
        ),
    )
    checks = _code(
        gettext_lazy("Checks"),
        rows=4,
        placeholder="tests = make test",
        help_text=gettext_lazy("One per line: name = command, for bash in the workspace. Each gets a button."),
    )
    setup_secrets = _line(
        gettext_lazy("Secrets of the setup"),
        max_length=4000,
        placeholder="NPM_TOKEN",
        help_text=gettext_lazy("Names separated by spaces. Given to the setup script only."),
    )
    agent_secrets = _line(
        gettext_lazy("Secrets of the agent"),
        max_length=4000,
        help_text=gettext_lazy("Names as above. Given to every command, terminal and service of the workspace."),
    )
    agents = _line(
        gettext_lazy("Agents"),
        max_length=4000,
        help_text=gettext_lazy(
            "Names separated by commas. If the environment has secrets, only these agents can create "
            "workspaces with it, and only from the git address above."
        ),
    )
    services = _code(
        gettext_lazy("Services"),
        rows=3,
        placeholder="web = npm run dev",
        help_text=gettext_lazy(
            "One per line: name = command. Started with the workspace, and restarted when it fails."
        ),
    )
    idle_minutes = _number(
        gettext_lazy("Pause after idle minutes"),
        7 * 24 * 60,
        help_text=gettext_lazy("Paused after this long without activity. Empty: the server's setting."),
    )
    stop_hours = _number(
        gettext_lazy("Stop after paused hours"),
        365 * 24,
        help_text=gettext_lazy("After that, only Resume starts it again. Optional."),
    )
    egress_setup = _code(
        gettext_lazy("Hosts allowed for setup"),
        rows=3,
        placeholder="packages.example.org",
        max_length=20_000,
        help_text=gettext_lazy(
            "One per line: example.org, *.example.org (all subdomains) or example.org:8443. Empty: none."
        ),
    )
    egress_agent = _code(
        gettext_lazy("Hosts allowed for the agent"),
        rows=3,
        placeholder="api.example.com",
        max_length=20_000,
        help_text=gettext_lazy(
            "Applies after setup. Other hosts are blocked; they can be allowed on the Network page."
        ),
    )
    memory_mb = _number(gettext_lazy("Memory in MB"), 1024**2, least=64)
    cpus = forms.FloatField(label=gettext_lazy("Processors"), required=False, min_value=0.1, max_value=1024)
    pids = _number(
        gettext_lazy("Processes and threads"),
        4_000_000,
        least=16,
        help_text=format_lazy(gettext_lazy("Empty: {}. A connected folder has no limit."), f"{PIDS:,}"),
    )
    disk_mb = _number(gettext_lazy("Disk in MB"), 1024**3, least=16)

    def __init__(self, data=None, *, teams, base=None, initial=None):
        super().__init__(data, initial=initial)
        self.fields["team"].queryset = Team.objects.filter(pk__in=[team.pk for team in teams]).order_by("name")
        known = [*isolation.available(), *([base.driver] if base else [])]
        self.fields["driver"].choices = [(name, DRIVERS.get(name, name)) for name in dict.fromkeys(known)]
        if base:
            # A version keeps the name and team of the one before; another name would be another environment.
            del self.fields["team"], self.fields["name"]
            self.initial = _initial(base)
        elif len(teams) == 1:
            self.fields["team"].widget = forms.HiddenInput()
            self.initial["team"] = teams[0].slug

    def fields_of_version(self) -> dict:
        cleaned = self.cleaned_data
        wanted = {
            "memory_bytes": cleaned["memory_mb"] and cleaned["memory_mb"] * MB,
            "cpus": cleaned["cpus"],
            "pids": cleaned["pids"],
            "disk_bytes": cleaned["disk_mb"] and cleaned["disk_mb"] * MB,
        }
        return {
            "driver": cleaned["driver"],
            "image": cleaned["image"],
            "minimum_isolation": cleaned["minimum_isolation"] or isolation.offered(cleaned["driver"]),
            "repository": cleaned["repository"],
            "ref": cleaned["ref"],
            "setup": cleaned["setup"].replace("\r\n", "\n"),
            "maintenance": cleaned["maintenance"].replace("\r\n", "\n"),
            "checks": environments.read_checks(cleaned["checks"]),
            "services": environments.read_checks(cleaned["services"], "services"),
            **self._times(),
            "egress": network.read_egress({phase: _lines(cleaned[f"egress_{phase}"]) for phase in network.PHASES}),
            "limits": {name: value for name, value in wanted.items() if value is not None},
            "secrets": environments.read_secrets(cleaned["setup_secrets"], cleaned["agent_secrets"]),
            "agents": [name for name in map(str.strip, cleaned["agents"].split(",")) if name],
        }

    def _times(self) -> dict:
        """Return only changed times: the version may have times that are not whole minutes or hours."""
        units = {"idle_minutes": ("idle_seconds", 60), "stop_hours": ("stop_seconds", 3600)}
        asked = {name: unit for name, unit in units.items() if name in self.data and name in self.changed_data}
        return {column: (self.cleaned_data[name] or 0) * size for name, (column, size) in asked.items()}


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _initial(base: Environment) -> dict:
    memory, disk = base.limits.get("memory_bytes"), base.limits.get("disk_bytes")
    return {
        **{name: getattr(base, name) for name in INITIAL},
        "checks": environments.write_checks(base.checks),
        "setup_secrets": " ".join(base.secrets.get("setup", [])),
        "agent_secrets": " ".join(base.secrets.get("agent", [])),
        "agents": ", ".join(base.agents),
        "services": environments.write_checks(base.services),
        "idle_minutes": base.idle_seconds // 60 or None,
        "stop_hours": base.stop_seconds // 3600 or None,
        "disk_mb": disk and disk // MB,
        **{f"egress_{phase}": "\n".join(base.egress.get(phase) or []) for phase in network.PHASES},
        "memory_mb": memory and memory // MB,
        "cpus": base.limits.get("cpus"),
        "pids": base.limits.get("pids"),
    }


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
    return get_object_or_404(Environment.objects.visible_to(request.caller).select_related("team"), pk=pk)


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
        "limits": environments.limits_shown(found),
        "secrets": secrets.statuses(found),
        "hosts": [(words, found.egress.get(phase) or []) for phase, words in REACHES.items()],
        "default_image": images.DEFAULT,
        "where": DRIVERS.get(found.driver, found.driver),
        "may_edit": request.caller.can("manage_environments", found.team),
    }
    return render(request, "workspaces/environment.html", context)


@signed_in
@READ_OR_WRITE
def new(request):
    teams = _teams_to_manage(request.caller)
    if not teams:
        must(request.caller, "manage_environments", None)
    form = EnvironmentForm(request.POST or None, teams=teams)
    return _save(request, form) or _form_page(request, form)


@signed_in
@READ_OR_WRITE
def edit(request, pk):
    base = _find(request, pk)
    must(request.caller, "manage_environments", base.team)
    form = EnvironmentForm(request.POST or None, teams=[base.team], base=base)
    return _save(request, form, base) or _form_page(request, form, base)


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


def _form_page(request, form, base=None):
    context = {"nav": "environments", "form": form, "base": base}
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
