"""Forms about teams and agents that several pages show."""

from django import forms
from django.utils.translation import gettext_lazy

from dashboard.models import Agent, Team
from dashboard.people.ticket_urls import SAMPLE
from dashboard.people.token_list import DEFAULT_DAYS, VALID_FOR, expiry_in
from dashboard.problems import Problem

PLAIN = {"autocomplete": "off"}
AS_CODE = {"class": "code-field", "autocapitalize": "none", "autocomplete": "off", "spellcheck": "false"}


class NewAgentForm(forms.Form):
    """The name of an agent, its team, and how long its first token is valid."""

    team = forms.ChoiceField(label=gettext_lazy("Team"))
    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=Agent._meta.get_field("name").max_length,
        widget=forms.TextInput(attrs=PLAIN | {"placeholder": gettext_lazy("Claude Code")}),
    )
    days = forms.CharField(
        label=gettext_lazy("Valid for"),
        required=False,
        initial=str(DEFAULT_DAYS),
        widget=forms.Select(choices=VALID_FOR),
        help_text=gettext_lazy("A token that never expires works for whoever finds it until somebody revokes it."),
    )

    def __init__(self, data=None, *, teams: list[Team], **more):
        super().__init__(data, **more)
        self.fields["team"].choices = [(team.slug, team.name) for team in teams]
        self.fields["days"].is_given = True  # a choice is made already, so it is not called optional
        if len(teams) == 1:
            self.fields["team"].widget = forms.HiddenInput()
            self.fields["team"].initial = teams[0].slug

    def clean_days(self):
        """Return when the token expires, None for never."""
        try:
            return expiry_in(self.cleaned_data["days"])
        except Problem as problem:
            raise forms.ValidationError(problem.detail) from None


class TicketsForm(forms.Form):
    """The address of a team's tickets."""

    address = forms.CharField(
        label=gettext_lazy("Address of tickets"),
        required=False,
        max_length=Team._meta.get_field("ticket_url").max_length,
        widget=forms.URLInput(attrs=AS_CODE | {"placeholder": SAMPLE}),
        help_text=gettext_lazy("Workspaces link to their ticket there: <code>{ticket}</code> stands for its id."),
    )

    def __init__(self, data=None, *, team: Team):
        super().__init__(data, auto_id=f"tickets-{team.slug}-%s", initial={"address": team.ticket_url})
        self.team = team


class TeamNameForm(forms.Form):
    """The name of a team that exists."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=Team._meta.get_field("name").max_length,
        widget=forms.TextInput(attrs=PLAIN),
    )

    def __init__(self, data=None, *, team: Team):
        super().__init__(data, auto_id=f"%s-{team.slug}", initial={"name": team.name})
        self.team = team


class NewTeamForm(forms.Form):
    """The names of a new team."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=Team._meta.get_field("name").max_length,
        widget=forms.TextInput(attrs=PLAIN),
    )
    slug = forms.CharField(
        label=gettext_lazy("Short name in addresses"),
        max_length=Team._meta.get_field("slug").max_length,
        widget=forms.TextInput(attrs=AS_CODE | {"pattern": r"[A-Za-z0-9_\-]+"}),
    )
