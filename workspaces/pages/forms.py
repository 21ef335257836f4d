"""The form that creates a workspace."""

from django import forms
from django.utils.translation import gettext, gettext_lazy

from dashboard.models import Agent
from workspaces.models import KEY_PATTERN
from workspaces.provisioning import isolation, uploads
from workspaces.services.environments import newest

CODE = {"class": "code-field", "spellcheck": "false", "autocapitalize": "off", "autocomplete": "off", "rows": 6}
DRIVERS = {
    "sandbox": gettext_lazy("Sandboxed: sees only its own folder and its allowed hosts. Shares this machine's kernel."),
    "docker": gettext_lazy("Container: its own image and allowed hosts. Shares this machine's kernel."),
    "microvm": gettext_lazy("MicroVM: its own kernel, disk and allowed hosts. Programs keep running across a pause."),
}


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
        widget=forms.TextInput(attrs={"autocapitalize": "off", "autocomplete": "off", "spellcheck": "false"}),
    )
    ref = forms.CharField(
        label=gettext_lazy("Branch or commit"),
        required=False,
        max_length=200,
        help_text=gettext_lazy("Default: the repository's default branch."),
        widget=forms.TextInput(attrs={"autocapitalize": "off", "autocomplete": "off", "spellcheck": "false"}),
    )
    tar = forms.FileField(
        label=gettext_lazy("Upload a .tar"),
        required=False,
        allow_empty_file=True,
        help_text=gettext_lazy(
            "Instead of a git address; also .tar.gz and .tar.zst. For a local folder run <code>manage.py push</code>."
        ),
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
            yield value, f"{found.name}{of}, version {found.version}. {DRIVERS.get(found.driver, found.driver)}"

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
            wish["source"] = {"upload": uploads.receive(cleaned["team"].pk, cleaned["tar"], by=by)[0]}
        if setup := cleaned["setup"].replace("\r\n", "\n"):
            wish["setup"] = setup
        return wish
