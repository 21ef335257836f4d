"""Forms of started agents: a new run, a message to one, and more budget."""

from django import forms
from django.utils.translation import gettext, gettext_lazy

from approvals.agent_runs import requests
from approvals.models import AgentDefinition
from approvals.sessions import messages
from dashboard.models import Team
from workspaces.models import Environment, Workspace
from workspaces.pages.forms import AS_CODE
from workspaces.provisioning import agent_programs
from workspaces.services.environments import newest

MAX_PLACES = 300  # workspaces in the list, those used last


def _budget(label, **more):
    return forms.IntegerField(label=label, required=False, min_value=1, **more)


class BudgetForm(forms.Form):
    budget_minutes = _budget(
        gettext_lazy("Minutes of work"),
        max_value=requests.MAX_MINUTES,
        help_text=gettext_lazy("From now on. Time that calls wait for approval does not count."),
    )
    budget_tokens = _budget(gettext_lazy("Tokens in all"), max_value=requests.MAX_TOKENS)
    budget_cost = forms.DecimalField(
        label=gettext_lazy("Cost in all"),
        required=False,
        min_value=0,
        max_digits=12,
        decimal_places=4,
        help_text=gettext_lazy("At the team's prices for tokens, which an admin sets under Measures."),
    )

    def clean(self):
        cleaned = super().clean()
        if not self.errors and not any(cleaned.get(name) for name in BudgetForm.base_fields):
            self.add_error("budget_minutes", gettext("Give more minutes, tokens or money."))
        return cleaned


class SayForm(forms.Form):
    text = forms.CharField(
        label=gettext_lazy("Message"), max_length=messages.MAX_TEXT, widget=forms.Textarea(attrs={"rows": 4})
    )


class NewRunForm(forms.Form):
    """`where()` is where the run works, `wish()` what `agent_runs.start` takes."""

    task = forms.CharField(
        label=gettext_lazy("Task"),
        max_length=requests.MAX_TASK,
        widget=forms.Textarea(attrs={"rows": 8}),
        help_text=gettext_lazy("The prompt. The agent works unattended, and its risky calls wait for approval."),
    )
    place = forms.ChoiceField(label=gettext_lazy("Where"))
    program = forms.ChoiceField(label=gettext_lazy("Agent"), required=False)
    model = forms.CharField(
        label=gettext_lazy("Model"),
        required=False,
        max_length=100,
        help_text=gettext_lazy("Empty: the first one that the environment names."),
        widget=forms.TextInput(attrs=AS_CODE),
    )
    definition = forms.ChoiceField(
        label=gettext_lazy("Definition"),
        required=False,
        help_text=gettext_lazy("Its system prompt and memory blocks are added to the instructions."),
    )
    ticket_url = forms.CharField(
        label=gettext_lazy("Ticket"),
        required=False,
        max_length=requests.MAX_URL,
        help_text=gettext_lazy("The URL of the ticket. It is added to the prompt."),
        widget=forms.TextInput(attrs=AS_CODE | {"placeholder": "https://"}),
    )
    budget_minutes = _budget(
        gettext_lazy("Ask a person after so many minutes of work"),
        max_value=requests.MAX_MINUTES,
        help_text=gettext_lazy("The agent then stops and keeps its session. Empty: no limit."),
    )
    budget_tokens = _budget(gettext_lazy("Ask a person after so many tokens"), max_value=requests.MAX_TOKENS)
    budget_cost = forms.DecimalField(
        label=gettext_lazy("Ask a person at this cost"),
        required=False,
        min_value=0,
        max_digits=12,
        decimal_places=4,
        help_text=gettext_lazy("At the team's prices for tokens, which an admin sets under Measures."),
    )

    def __init__(self, data=None, *, caller, teams: list[Team], initial=None):
        super().__init__(data, initial=initial)
        self.caller, self.teams = caller, {team.pk: team for team in teams}
        self.workspaces, self.environments = self._workspaces(), self._environments()
        places = [*self.environments.values(), *(each.environment for each in self.workspaces.values())]
        self.fields["program"].choices = agent_programs.choices(places)
        several = len(teams) > 1
        names = AgentDefinition.objects.filter(team__in=self.teams).order_by("name").values_list("name", flat=True)
        self.fields["definition"].choices = [("", gettext("None")), *((name, name) for name in names.distinct())]
        self.fields["place"].choices = [
            (gettext("In a new workspace of an environment"), _choices("environment", self.environments, several)),
            (gettext("In a workspace"), _choices("workspace", self.workspaces, several)),
        ]

    def _workspaces(self) -> dict:
        rows = Workspace.objects.visible_to(self.caller).kept().filter(team__in=self.teams)
        rows = rows.exclude(environment__agent_programs=[]).select_related("team", "environment")
        return {f"{each.team.slug}/{each.key}": each for each in rows.order_by("-last_active_at", "key")[:MAX_PLACES]}

    def _environments(self) -> dict:
        rows = newest(list(self.teams)).to_make_from().exclude(agent_programs=[]).order_by("name")
        return {f"{each.team.slug}/{each.name}": each for each in rows}

    def wish(self) -> dict:
        return {name: value for name, value in self.cleaned_data.items() if name != "place"}

    def where(self) -> Workspace | Environment:
        kind, _, name = self.cleaned_data["place"].partition(":")
        return (self.workspaces if kind == "workspace" else self.environments)[name]


def _choices(kind: str, places: dict, several: bool) -> list[tuple[str, str]]:
    """Return the choices of one kind of places, with their team if there are several."""
    label = {"workspace": "key", "environment": "name"}[kind]
    of = {name: f" · {each.team.name}" if several else "" for name, each in places.items()}
    return [(f"{kind}:{name}", f"{getattr(each, label)}{of[name]}") for name, each in places.items()]
