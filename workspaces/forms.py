"""The form of a new workspace."""

from django import forms

from workspaces.lifecycle import available_drivers
from workspaces.models import KEY_PATTERN

CODE = {"class": "code-field", "spellcheck": "false", "autocapitalize": "off", "autocomplete": "off", "rows": 6}
DRIVERS = {"sandbox": "Sandbox: sees only its folder and no network"}


class NewWorkspace(forms.Form):
    """`wish()` is what lifecycle.create takes."""

    team = forms.ModelChoiceField(None, label="Team", to_field_name="slug", empty_label=None)
    key = forms.RegexField(
        rf"^{KEY_PATTERN}\Z",
        label="Name",
        strip=True,
        help_text="Small letters, digits, dots, dashes. Asking for the same name again brings up the same workspace.",
        error_messages={"invalid": "A name has small letters, digits, dots, dashes; it begins with a letter or digit."},
        widget=forms.TextInput(attrs={"autocapitalize": "off", "autocomplete": "off", "spellcheck": "false"}),
    )
    git = forms.CharField(
        label="Git address",
        required=False,
        max_length=500,
        help_text="Empty: the workspace starts with an empty folder.",
        widget=forms.TextInput(attrs={"autocapitalize": "off", "autocomplete": "off", "spellcheck": "false"}),
    )
    ref = forms.CharField(
        label="Branch or commit",
        required=False,
        max_length=200,
        help_text="Empty: the repository's own.",
        widget=forms.TextInput(attrs={"autocapitalize": "off", "autocomplete": "off", "spellcheck": "false"}),
    )
    setup = forms.CharField(
        label="Set-up script",
        required=False,
        strip=False,
        help_text="Runs once with bash, in the workspace. In this version it runs without network.",
        widget=forms.Textarea(attrs=CODE),
    )
    driver = forms.ChoiceField(label="Where it runs", required=False)
    fresh = forms.BooleanField(label="Start empty although one with this name is in the trash", required=False)

    in_trash = False

    def __init__(self, data=None, *, teams, initial=None):
        super().__init__(data, initial=initial)
        known = {team.pk for team in teams}
        self.fields["team"].queryset = type(teams[0]).objects.filter(pk__in=known).order_by("name")
        self.fields["driver"].choices = [(name, DRIVERS.get(name, name)) for name in available_drivers()]
        if len(teams) == 1:
            self.fields["team"].widget = forms.HiddenInput()
            self.initial["team"] = teams[0].slug

    def wish(self) -> dict:
        cleaned = self.cleaned_data
        wish: dict = {"fresh": cleaned["fresh"]}
        if cleaned["driver"]:
            wish["driver"] = cleaned["driver"]
        if cleaned["git"]:
            wish["source"] = {"git": cleaned["git"], "ref": cleaned["ref"]}
        if setup := cleaned["setup"].replace("\r\n", "\n"):
            wish["setup"] = setup
        return wish
