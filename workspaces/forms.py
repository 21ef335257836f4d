"""The form of a new workspace."""

from django import forms

from workspaces import isolation, uploads
from workspaces.environments import newest
from workspaces.models import KEY_PATTERN

CODE = {"class": "code-field", "spellcheck": "false", "autocapitalize": "off", "autocomplete": "off", "rows": 6}
DRIVERS = {
    "sandbox": "Sandbox: sees only its folder and the hosts on its list. Shares this machine's kernel.",
    "docker": "Container: an image of its own, and the hosts on its list. Shares this machine's kernel.",
    "microvm": "MicroVM: a kernel and a disk of its own, and the hosts on its list. A pause keeps what runs.",
}


class NewWorkspace(forms.Form):
    """`wish()` is what lifecycle.create takes; it keeps a tar that came along. Problem when that cannot be kept."""

    team = forms.ModelChoiceField(None, label="Team", to_field_name="slug", empty_label=None)
    key = forms.RegexField(
        rf"^{KEY_PATTERN}\Z",
        label="Name",
        strip=True,
        help_text="Small letters, digits, dots, dashes. Asking for the same name again brings up the same workspace.",
        error_messages={"invalid": "A name has small letters, digits, dots, dashes; it begins with a letter or digit."},
        widget=forms.TextInput(attrs={"autocapitalize": "off", "autocomplete": "off", "spellcheck": "false"}),
    )
    where = forms.ChoiceField(label="Where it runs", required=False, widget=forms.RadioSelect)
    git = forms.CharField(
        label="Git address",
        required=False,
        max_length=500,
        help_text="Empty: what the environment starts from, else an empty folder.",
        widget=forms.TextInput(attrs={"autocapitalize": "off", "autocomplete": "off", "spellcheck": "false"}),
    )
    ref = forms.CharField(
        label="Branch or commit",
        required=False,
        max_length=200,
        help_text="Empty: the repository's own.",
        widget=forms.TextInput(attrs={"autocapitalize": "off", "autocomplete": "off", "spellcheck": "false"}),
    )
    tar = forms.FileField(
        label="Files as a tar",
        required=False,
        allow_empty_file=True,
        help_text="Instead of a git address; also .tar.gz and .tar.zst. A folder of yours goes with manage.py push.",
    )
    setup = forms.CharField(
        label="Set-up script",
        required=False,
        strip=False,
        help_text="Runs once with bash, and reaches no host. An environment brings its own script and its hosts.",
        widget=forms.Textarea(attrs=CODE),
    )
    fresh = forms.BooleanField(label="Start empty although one with this name is in the trash", required=False)

    in_trash = False

    def __init__(self, data=None, files=None, *, teams, initial=None):
        super().__init__(data, files, initial=initial)
        known = {team.pk for team in teams}
        self.fields["team"].queryset = type(teams[0]).objects.filter(pk__in=known).order_by("name")
        # "default" is what a driver's own line means.
        named = newest(known).exclude(name="default").order_by("name")
        self.environments = {f"environment:{found.pk}": found for found in named}
        self.fields["where"].choices = [*self._drivers(), *self._made_before(len(teams) > 1)]
        self.initial.setdefault("where", self.fields["where"].choices[0][0])
        if len(teams) == 1:
            self.fields["team"].widget = forms.HiddenInput()
            self.initial["team"] = teams[0].slug

    def _drivers(self):
        return [(f"driver:{name}", DRIVERS.get(name, name)) for name in isolation.available()]

    def _made_before(self, several_teams: bool):
        """(value, words) of the environments: a name, where it runs, and of whom when there are several teams."""
        for value, found in self.environments.items():
            of = f" of {found.team.name}" if several_teams else ""
            yield value, f"{found.name}{of}, version {found.version}. {DRIVERS.get(found.driver, found.driver)}"

    def clean(self):
        cleaned = super().clean()
        found = self.environments.get(cleaned.get("where"))
        if found and cleaned.get("team") and found.team_id != cleaned["team"].pk:
            self.add_error("where", f"That environment is one of {found.team.name}.")
        if cleaned.get("git") and cleaned.get("tar"):
            self.add_error("tar", "A git address or a tar: it cannot start from both.")
        return cleaned

    def wish(self) -> dict:
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
            wish["source"] = {"upload": uploads.receive(cleaned["team"].pk, cleaned["tar"])[0]}
        if setup := cleaned["setup"].replace("\r\n", "\n"):
            wish["setup"] = setup
        return wish
