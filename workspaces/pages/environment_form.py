"""The form of an environment, which saves its next version."""

from django import forms
from django.conf import settings
from django.utils.functional import Promise, lazy
from django.utils.translation import gettext_lazy

from dashboard.models import Team
from workspaces.models import AgentsTogether, Environment, Lfs, Storage, Submodules
from workspaces.pages import environment_defaults
from workspaces.pages.environment_agents import AgentFields, initial_of
from workspaces.pages.forms import CODE, DRIVERS
from workspaces.provisioning import isolation
from workspaces.services import environments

MB = 1024**2
INITIAL = (
    "driver",
    "image",
    "runtime_class",
    "storage",
    "minimum_isolation",
    "repository",
    "ref",
    "submodules",
    "lfs",
    "sign_commits",
    "setup",
    "maintenance",
    "working_directory",
    "agents_together",
    "snapshot_ignore",
    "ephemeral",
    "upstream",
)
PLAIN = {"autocapitalize": "off", "autocomplete": "off", "spellcheck": "false"}
AS_CODE = PLAIN | {"class": "code-field"}


def _line(label: str, **more) -> forms.CharField:
    """Return an optional one-line field for addresses and names, without a phone keyboard's corrections."""
    attrs = AS_CODE | {name: more.pop(name) for name in ("placeholder",) if name in more}
    return forms.CharField(label=label, required=False, widget=forms.TextInput(attrs=attrs), **more)


def _code(label: str, *, rows: int | None = None, placeholder: str = "", max_length: int = 100_000, **more):
    """Return an optional field of several lines, not stripped."""
    attrs = CODE | ({"rows": rows} if rows else {}) | ({"placeholder": placeholder} if placeholder else {})
    widget = forms.Textarea(attrs=attrs)
    return forms.CharField(label=label, required=False, strip=False, max_length=max_length, widget=widget, **more)


def _number(label: str, most: int, *, least: int = 1, **more) -> forms.IntegerField:
    return forms.IntegerField(label=label, required=False, min_value=least, max_value=most, **more)


def _default_of(limit: str) -> Promise:
    """Return the help text of a limit: what is in force if the field is left empty."""
    return lazy(environments.defaults_in_words, str)(limit)


class EnvironmentForm(AgentFields):
    """The form of an environment; `fields_of_version()` returns the `fields` for environments.save."""

    team = forms.ModelChoiceField(None, label=gettext_lazy("Team"), to_field_name="slug", empty_label=None)
    name = forms.RegexField(
        rf"^{environments.NAME.pattern}\Z",
        label=gettext_lazy("Name"),
        error_messages={"invalid": gettext_lazy("Use letters, digits, spaces, dots and dashes.")},
        widget=forms.TextInput(attrs=PLAIN),
    )
    driver = forms.ChoiceField(label=gettext_lazy("Where it runs"))
    image = _line(
        gettext_lazy("Image"),
        max_length=200,
        help_text=gettext_lazy(
            "For containers: an image on the engine, the path of an allowed folder with a Dockerfile, or an image with "
            "its digest (NAME@sha256:…), which is pulled if the server allows its registry. Default: "
            "handrail/base:bookworm."
        ),
    )
    dockerfile = _line(
        gettext_lazy("Dockerfile"),
        max_length=500,
        help_text=gettext_lazy("For an image that is a folder: its path in that folder, if it is not Dockerfile."),
    )
    build_args = _code(
        gettext_lazy("Build arguments"),
        rows=2,
        placeholder="VERSION=3",
        help_text=gettext_lazy("For the build of such an image. One per line: NAME=value."),
    )
    build_target = _line(gettext_lazy("Build target"), max_length=200)
    runtime_class = _line(
        gettext_lazy("Runtime class"),
        max_length=63,
        help_text=gettext_lazy(
            "What runs the pods of a cluster, such as gvisor, or the containers of an engine, such as runsc."
        ),
    )
    storage = forms.ChoiceField(
        label=gettext_lazy("Files of a pod"),
        required=False,
        choices=Storage.choices,
        initial=Storage.EMPTYDIR,
        help_text=gettext_lazy("Where they are while it is up."),
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
    agents_together = forms.ChoiceField(
        label=gettext_lazy("Two agents in one workspace"),
        required=False,
        choices=AgentsTogether.choices,
        initial=AgentsTogether.WARN,
        help_text=gettext_lazy("An agent is at work for ten minutes after its last call, and while something runs."),
    )
    repository = _line(
        gettext_lazy("Source"),
        max_length=500,
        placeholder="https://",
        help_text=gettext_lazy(
            "The git address, or the path of a folder that the server allows, with which each workspace begins. Empty: "
            "an empty folder."
        ),
    )
    ref = _line(gettext_lazy("Branch or commit"), max_length=200)
    submodules = forms.ChoiceField(
        label=gettext_lazy("Submodules"),
        required=False,
        choices=Submodules.choices,
        initial=Submodules.CLONED,
        help_text=gettext_lazy(
            "Those of the source, at creation. A revision that git merges leaves their folders as they are."
        ),
    )
    lfs = forms.ChoiceField(
        label=gettext_lazy("Files of git-lfs"),
        required=False,
        choices=Lfs.choices,
        initial=Lfs.LEFT,
        help_text=gettext_lazy("Their content is pulled from the source's own host, and is never pushed."),
    )
    sign_commits = forms.BooleanField(
        label=gettext_lazy("Sign commits"),
        required=False,
        initial=True,
        help_text=gettext_lazy("With the team's signing key, if it has one under Secrets. The key stays outside."),
    )
    setup = _code(
        gettext_lazy("Setup script"),
        help_text=gettext_lazy("Runs once with bash -e in each new workspace; can reach only the setup hosts below."),
    )
    maintenance = _code(
        gettext_lazy("Maintenance script"),
        help_text=gettext_lazy(
            "Runs with bash -e each time a workspace resumes, before anything else; can reach the agent's hosts."
        ),
    )
    maintenance_minutes = _number(
        gettext_lazy("Minutes that maintenance may take"),
        environments.MOST_SECONDS["maintenance_seconds"] // 60,
        help_text=gettext_lazy("Ended after this long. Empty: the server's setting for scripts."),
    )
    variables = _code(
        gettext_lazy("Variables"),
        rows=4,
        placeholder="NODE_ENV=development",
        help_text=gettext_lazy(
            "One per line: NAME=value, for every program, in setup too. Not for passwords: everybody in the team sees "
            "them, and they are not removed from output."
        ),
    )
    working_directory = _line(
        gettext_lazy("Working directory"),
        max_length=500,
        placeholder="packages/api",
        help_text=gettext_lazy("Where commands, services and terminals start: a folder in /workspace."),
    )
    snapshot_ignore = _code(
        gettext_lazy("Left out of snapshots"),
        rows=4,
        placeholder="node_modules/",
        max_length=20_000,
        help_text=gettext_lazy(
            "Patterns as in .gitignore, one per line. Matching files are not stored: a rollback leaves them as they "
            "are, and a fork starts without them. Files that git tracks and files of the gate are always stored."
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
        environments.MOST_SECONDS["idle_seconds"] // 60,
        help_text=gettext_lazy("Paused after this long without activity. Empty: the server's setting."),
    )
    stop_hours = _number(
        gettext_lazy("Stop after paused hours"),
        environments.MOST_SECONDS["stop_seconds"] // 3600,
        help_text=gettext_lazy("After that, only Resume starts it again. Optional."),
    )
    ephemeral = forms.BooleanField(
        label=gettext_lazy("Ephemeral"),
        required=False,
        help_text=gettext_lazy(
            "When a workspace stops, also after idle minutes, its changes since setup are kept as a patch and a "
            "snapshot, and its files leave the host. Resume brings them back."
        ),
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
            "Applies after setup. Other hosts are blocked; they can be allowed on the Network page. With methods and"
            " paths, such as api.github.com READ,POST /repos/acme/*, TLS to the host is opened, and any other request"
            " asks. READ is all that only reads. Presets: @registries, @read-github, @read-gitlab, @docs."
        ),
    )
    upstream = forms.ChoiceField(
        label=gettext_lazy("Proxy of the company"),
        required=False,
        choices=lambda: [
            ("", gettext_lazy("as for Handrail itself")),
            *((each,) * 2 for each in settings.HANDRAIL_UPSTREAMS),
        ],
        help_text=gettext_lazy("By which its workspaces leave. The operator names further ones."),
    )
    memory_mb = _number(gettext_lazy("Memory in MB"), 1024**2, least=64, help_text=_default_of("memory_bytes"))
    cpus = forms.FloatField(
        label=gettext_lazy("Processors"),
        required=False,
        min_value=0.1,
        max_value=1024,
        help_text=_default_of("cpus"),
    )
    pids = _number(
        gettext_lazy("Processes and threads"),
        4_000_000,
        least=16,
        help_text=_default_of("pids"),
    )
    disk_mb = _number(gettext_lazy("Disk in MB"), 1024**3, least=16, help_text=_default_of("disk_bytes"))

    def __init__(self, data=None, *, teams, base=None, start=None, initial=None, shown=None):
        """Fill the form from `base`, the version to change, or from `start`, an unsaved environment.

        `shown`: what is shown in place of `base` at first.
        """
        super().__init__(data, initial=initial)
        self.fields["team"].queryset = Team.objects.filter(pk__in=[team.pk for team in teams]).order_by("name")
        self.offer(teams, shown or base or start)
        environment_defaults.state_defaults(self)
        known = [*isolation.available(), *([base.driver] if base else [])]
        self.fields["driver"].choices = [(name, DRIVERS.get(name, name)) for name in dict.fromkeys(known)]
        if base:
            # A version keeps the name and team of the one before; another name would be another environment.
            del self.fields["team"], self.fields["name"]
            self.initial = _initial(shown or base)
            return
        if start:
            self.initial = _initial(start) | {"minimum_isolation": "", "name": start.name} | self.initial
        if len(teams) == 1:
            self.fields["team"].widget = forms.HiddenInput()
            self.initial["team"] = teams[0].slug

    @property
    def first_fields(self) -> list:
        return environment_defaults.first_of(self)

    @property
    def groups(self) -> list:
        return environment_defaults.groups_of(self)

    @property
    def changed(self) -> list[str]:
        return environment_defaults.changed_of(self)

    @property
    def shows_advanced(self) -> bool:
        """Whether one of the fields below *Advanced* is wrong."""
        return any(field.errors for group in self.groups for field in group.fields)

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
            "runtime_class": cleaned["runtime_class"],
            "storage": cleaned["storage"],
            "minimum_isolation": cleaned["minimum_isolation"],
            "repository": cleaned["repository"],
            "ref": cleaned["ref"],
            "submodules": cleaned["submodules"],
            "lfs": cleaned["lfs"],
            "sign_commits": cleaned["sign_commits"],
            "setup": cleaned["setup"].replace("\r\n", "\n"),
            "maintenance": cleaned["maintenance"].replace("\r\n", "\n"),
            "build": self._build(),
            "variables": environments.read_variables(cleaned["variables"]),
            "working_directory": cleaned["working_directory"],
            "snapshot_ignore": cleaned["snapshot_ignore"].replace("\r\n", "\n"),
            "checks": environments.read_checks(cleaned["checks"]),
            **self.agent_columns(),
            "services": environments.read_checks(cleaned["services"], "services"),
            "ephemeral": cleaned["ephemeral"],
            **self._times(),
            "egress": {phase: _lines(cleaned[f"egress_{phase}"]) for phase in environments.PHASES},
            "upstream": cleaned["upstream"],
            "limits": {name: value for name, value in wanted.items() if value is not None},
            "secrets": environments.read_secrets(cleaned["setup_secrets"], cleaned["agent_secrets"]),
            "agents_together": cleaned["agents_together"],
            "agents": [name for name in map(str.strip, cleaned["agents"].split(",")) if name],
        }

    def _build(self) -> dict:
        cleaned = self.cleaned_data
        args = environments.read_variables(cleaned["build_args"], "build arguments")
        parts = {"dockerfile": cleaned["dockerfile"], "args": args, "target": cleaned["build_target"]}
        return {name: value for name, value in parts.items() if value}

    def _times(self) -> dict:
        """Return only changed times: the version may have times that are not whole minutes or hours."""
        units = {
            "idle_minutes": ("idle_seconds", 60),
            "stop_hours": ("stop_seconds", 3600),
            "maintenance_minutes": ("maintenance_seconds", 60),
        }
        asked = {name: unit for name, unit in units.items() if name in self.data and name in self.changed_data}
        return {column: (self.cleaned_data[name] or 0) * size for name, (column, size) in asked.items()}


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _initial(base: Environment) -> dict:
    memory, disk = base.limits.get("memory_bytes"), base.limits.get("disk_bytes")
    return {
        **{name: getattr(base, name) for name in INITIAL},
        "checks": environments.write_checks(base.checks),
        "dockerfile": base.build.get("dockerfile", ""),
        "build_args": environments.write_variables(base.build.get("args", {})),
        "build_target": base.build.get("target", ""),
        "variables": environments.write_variables(base.variables),
        "maintenance_minutes": base.maintenance_seconds // 60 or None,
        "setup_secrets": " ".join(base.secrets.get("setup", [])),
        "agent_secrets": " ".join(base.secrets.get("agent", [])),
        "agents": ", ".join(base.agents),
        **initial_of(base),
        "services": environments.write_checks(base.services),
        "idle_minutes": base.idle_seconds // 60 or None,
        "stop_hours": base.stop_seconds // 3600 or None,
        "disk_mb": disk and disk // MB,
        **{f"egress_{phase}": "\n".join(base.egress.get(phase) or []) for phase in environments.PHASES},
        "memory_mb": memory and memory // MB,
        "cpus": base.limits.get("cpus"),
        "pids": base.limits.get("pids"),
    }
