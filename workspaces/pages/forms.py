"""Forms of a workspace's pages: a new one, a fork's name, ports, hosts, branches, holds."""

from django import forms
from django.utils.html import escape
from django.utils.safestring import mark_safe
from django.utils.translation import gettext, gettext_lazy

from dashboard.models import Agent
from dashboard.problems import Problem
from dashboard.text.visible_text import visible
from workspaces import lifecycle
from workspaces.models import KEY_PATTERN, Environment, RevisionHow, Workspace
from workspaces.operations import uploads_elsewhere
from workspaces.provisioning import isolation
from workspaces.services import pull_requests
from workspaces.services.environments import newest

CODE = {"class": "code-field", "spellcheck": "false", "autocapitalize": "off", "autocomplete": "off", "rows": 6}
DRIVERS = {
    "sandbox": gettext_lazy("Sandboxed: sees only its own folder and its allowed hosts. Shares this machine's kernel."),
    "docker": gettext_lazy("Container: its own image and allowed hosts. Shares this machine's kernel."),
    "microvm": gettext_lazy("MicroVM: its own kernel, disk and allowed hosts. Programs keep running across a pause."),
    "kubernetes": gettext_lazy("Pod: its own image and allowed hosts, on a node of a cluster."),
}
AS_CODE = {"class": "code-field", "autocapitalize": "off", "autocomplete": "off", "spellcheck": "false"}
MAX_PORT = 65_535
MAX_HOLD_DAYS = 36_500
NO_PORT = gettext_lazy("A port is a number from 1 to 65535.")
NO_DAYS = gettext_lazy("Give a number of days, at most 36,500.")

EPHEMERAL = gettext_lazy("Ephemeral: when it stops, its changes are kept and its files leave the host.")


class NewWorkspace(forms.Form):
    """The form of a new workspace.

    `wish()` returns the request for lifecycle.create, after storing an uploaded tar; Problem if that fails.
    """

    team = forms.ModelChoiceField(None, label=gettext_lazy("Team"), to_field_name="slug", empty_label=None)
    key = forms.RegexField(
        rf"^{KEY_PATTERN}\Z",
        label=gettext_lazy("Name"),
        strip=True,
        help_text=gettext_lazy(
            "Lower-case letters, digits, dots, dashes. Using an existing name opens that workspace."
        ),
        error_messages={
            "invalid": gettext_lazy("Use lower-case letters, digits, dots and dashes; start with a letter or digit.")
        },
        widget=forms.TextInput(attrs={"autocapitalize": "off", "autocomplete": "off", "spellcheck": "false"}),
    )
    where = forms.ChoiceField(label=gettext_lazy("Where it runs"), required=False, widget=forms.RadioSelect)
    git = forms.CharField(
        label=gettext_lazy("Git address"),
        required=False,
        max_length=500,
        help_text=gettext_lazy("Default: the environment's repository, or an empty folder."),
        widget=forms.TextInput(
            attrs={"class": "code-field", "autocapitalize": "off", "autocomplete": "off", "spellcheck": "false"}
        ),
    )
    ref = forms.CharField(
        label=gettext_lazy("Branch or commit"),
        required=False,
        max_length=200,
        help_text=gettext_lazy("Default: the repository's default branch."),
        widget=forms.TextInput(
            attrs={"class": "code-field", "autocapitalize": "off", "autocomplete": "off", "spellcheck": "false"}
        ),
    )
    tar = forms.FileField(
        label=gettext_lazy("Upload a .tar"),
        required=False,
        allow_empty_file=True,
        help_text=gettext_lazy(
            "Instead of a git address; also .tar.gz and .tar.zst. For a local folder run <code>manage.py push</code>."
        ),
    )
    artifacts = forms.CharField(
        label=gettext_lazy("Artifacts to begin with"),
        required=False,
        max_length=2000,
        help_text=gettext_lazy(
            'Names, separated by spaces, of <a href="/artifacts/">artifacts</a> of the same repository. '
            "They are put into <code>/workspace/artifacts/NAME</code>, which git ignores."
        ),
        widget=forms.TextInput(attrs={"autocapitalize": "off", "autocomplete": "off", "spellcheck": "false"}),
    )
    setup = forms.CharField(
        label=gettext_lazy("Setup script"),
        required=False,
        strip=False,
        help_text=gettext_lazy(
            "Runs once with bash, without network. An environment has its own script and allowed hosts."
        ),
        widget=forms.Textarea(attrs=CODE),
    )
    agents = forms.ModelMultipleChoiceField(
        None,
        label=gettext_lazy("Agents that may work here"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=gettext_lazy("They can be changed on the workspace's page at any time."),
    )
    fresh = forms.BooleanField(
        label=gettext_lazy("Start empty, although a workspace with this name was deleted"), required=False
    )

    in_trash = is_gone = False

    def __init__(self, data=None, files=None, *, teams, binds_in=(), initial=None):
        """`teams`: those in which the person may create workspaces; `binds_in`: those whose agents they may bind."""
        super().__init__(data, files, initial=initial)
        bindable = Agent.objects.filter(team__in=binds_in).select_related("owner", "team").order_by("name")
        self.fields["agents"].queryset = bindable
        if not bindable.exists():
            del self.fields["agents"]
        elif len(teams) > 1:
            self.fields["agents"].label_from_instance = lambda agent: f"{agent} · {agent.team.name}"
        known = {team.pk for team in teams}
        self.fields["team"].queryset = type(teams[0]).objects.filter(pk__in=known).order_by("name")
        # The choice of a driver stands for its "default" environment.
        named = newest(known).to_make_from().exclude(name="default").order_by("name")
        self.environments = {f"environment:{found.pk}": found for found in named}
        self.fields["where"].choices = [*self._drivers(), *self._made_before(len(teams) > 1)]
        self.initial.setdefault("where", self.fields["where"].choices[0][0])
        if len(teams) == 1:
            self.fields["team"].widget = forms.HiddenInput()
            self.initial["team"] = teams[0].slug

    def _drivers(self):
        return [(f"driver:{name}", DRIVERS.get(name, name)) for name in isolation.available()]

    def _made_before(self, several_teams: bool):
        """Yield (value, label) of the environments; the label includes the team when there are several."""
        for value, found in self.environments.items():
            of = f" of {found.team.name}" if several_teams else ""
            words = f"{found.name}{of}, version {found.version}. {DRIVERS.get(found.driver, found.driver)}"
            yield value, f"{words} {EPHEMERAL}" if found.ephemeral else words

    def clean(self):
        cleaned = super().clean()
        found = self.environments.get(cleaned.get("where"))
        if found and cleaned.get("team") and found.team_id != cleaned["team"].pk:
            self.add_error("where", gettext("That environment belongs to %(name)s.") % {"name": found.team.name})
        if any(agent.team_id != cleaned["team"].pk for agent in cleaned.get("agents") or () if cleaned.get("team")):
            self.add_error("agents", gettext("Choose agents of the workspace's team."))
        if cleaned.get("git") and cleaned.get("tar"):
            self.add_error("tar", gettext("Give a git address or a tar, not both."))
        return cleaned

    def wish(self, *, by) -> dict:
        cleaned = self.cleaned_data
        wish: dict = {"fresh": cleaned["fresh"]}
        kind, _, name = cleaned["where"].partition(":")
        if kind == "driver":
            wish["driver"] = name
        elif kind == "environment":
            wish["environment"] = self.environments[cleaned["where"]].name
        if cleaned["git"]:
            wish["source"] = {"git": cleaned["git"], "ref": cleaned["ref"]}
        elif cleaned["tar"]:
            wish["source"] = {"upload": uploads_elsewhere.receive(cleaned["team"].pk, cleaned["tar"], by=by)[0]}
        if names := cleaned["artifacts"].replace(",", " ").split():
            wish["artifacts"] = names
        if setup := cleaned["setup"].replace("\r\n", "\n"):
            wish["setup"] = setup
        return wish


# Forms of one or a few fields ----------------------------------------------------------------------------------------


def _as_code(**more) -> forms.TextInput:
    return forms.TextInput(attrs=AS_CODE | more)


class PortForm(forms.Form):
    """A port of a workspace's program, or of this machine."""

    port = forms.IntegerField(
        min_value=1,
        max_value=MAX_PORT,
        error_messages={"invalid": NO_PORT, "min_value": NO_PORT, "max_value": NO_PORT},
    )

    def __init__(self, data=None, *, label: str, auto_id: str):
        super().__init__(data, auto_id=auto_id)
        self.fields["port"].label = label


class HostForm(forms.Form):
    """A host that a workspace may reach."""

    host = forms.CharField(
        label=gettext_lazy("Host, e.g. example.org, *.example.org or example.org:8443"),
        max_length=300,
        widget=_as_code(),
    )


class BranchForm(forms.Form):
    """The branch of a push."""

    branch = forms.CharField(label=gettext_lazy("To the branch"), max_length=200, widget=_as_code())

    def __init__(self, data=None, *, initial: dict | None = None):
        super().__init__(data, auto_id="push-%s", initial=initial)


class RevisionForm(forms.Form):
    """Which revision of the source is taken, and how."""

    ref = forms.CharField(
        label=gettext_lazy("Branch or commit"),
        required=False,
        max_length=200,
        help_text=gettext_lazy("Default: the branch that the current one follows, or the repository's default branch."),
        widget=_as_code(),
    )
    how = forms.ChoiceField(
        label=gettext_lazy("How"), choices=RevisionHow, initial=RevisionHow.MERGE, widget=forms.RadioSelect
    )


class PullRequestForm(forms.Form):
    """What a pull request is opened with. An empty description is written from the history."""

    branch = forms.CharField(label=gettext_lazy("Branch to push"), max_length=200, widget=_as_code())
    base = forms.CharField(
        label=gettext_lazy("Into"),
        required=False,
        max_length=200,
        widget=_as_code(placeholder=gettext_lazy("the default branch")),
    )
    title = forms.CharField(label=gettext_lazy("Title"), max_length=250)
    body = forms.CharField(
        label=gettext_lazy("Description, written from the history"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 10, "spellcheck": "false"}),
    )

    draft = forms.BooleanField(label=gettext_lazy("As a draft"), required=False)
    written = forms.CharField(required=False, max_length=200, widget=forms.HiddenInput)

    def clean_body(self) -> str:
        # A browser sends each line end of a text field as CR LF.
        return self.cleaned_data["body"].replace("\r\n", "\n")

    def clean(self):
        """Name in `given` the texts that were changed: only these replace those of an open pull request."""
        given = super().clean()
        texts = {name: given.get(name, "") for name in pull_requests.TEXTS}
        return given | {"given": pull_requests.changed(texts, given.get("written", ""))}


class ForkForm(forms.Form):
    """The name of the workspace that a fork makes, and its environment if there are others."""

    key = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=Workspace._meta.get_field("key").max_length,
        widget=forms.TextInput(attrs=AS_CODE | {"class": ""}),
    )

    def __init__(self, data=None, *, workspace: Workspace, others: list[Environment]):
        super().__init__(data, auto_id="%s", initial={"key": f"{workspace.key[:50]}-fork"})
        if others:
            same = gettext("The same: %(name)s, version %(version)s")
            choices = [("", _version(same, workspace.environment))]
            choices += [(found.name, _version(gettext("%(name)s, version %(version)s"), found)) for found in others]
            self.fields["environment"] = forms.ChoiceField(
                label=gettext("Environment"),
                required=False,
                choices=choices,
                help_text=gettext(
                    "The setup of another environment runs on the files. They are kept in a snapshot of the fork "
                    "before it runs."
                ),
            )
            self.fields["environment"].is_given = True  # the same one is chosen already

    def clean_key(self) -> str:
        try:
            return lifecycle.check_key(self.cleaned_data["key"])
        except Problem as problem:
            raise forms.ValidationError(problem.detail) from None


def _version(words: str, environment: Environment) -> str:
    return with_visible(words, name=environment.name, version=environment.version)


def with_visible(words: str, **parts) -> str:
    """Return our own sentence with parts that others wrote, whose hidden characters are marked."""
    return mark_safe(escape(words) % {name: visible(str(part), one_line=True) for name, part in parts.items()})


class HoldForm(forms.Form):
    """Why something is held, and for how long."""

    WHAT = ("snapshot", "workspace")
    reason = forms.CharField(label=gettext_lazy("Reason"), max_length=500)
    days = forms.IntegerField(
        label=gettext_lazy("Days (empty: until it is released)"),
        required=False,
        min_value=1,
        max_value=MAX_HOLD_DAYS,
        error_messages={"invalid": NO_DAYS, "min_value": NO_DAYS, "max_value": NO_DAYS},
    )

    def __init__(self, data=None, *, what: str):
        super().__init__(data, auto_id=f"{what}-hold-%s")
        self.what = what
        self.fields["days"].is_given = True  # its label says what an empty one means
