"""Forms of started agents: a new run, a message to one, and more budget."""

from django import forms
from django.utils.translation import gettext, gettext_lazy

from approvals.agent_runs import requests
from approvals.models import AgentDefinition, AgentRun
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

    FIRST = ("task", "place", "program")  # what is asked first; the rest is below *More*

    task = forms.CharField(
        label=gettext_lazy("Task"),
        max_length=requests.MAX_TASK,
        widget=forms.Textarea(attrs={"rows": 8, "autofocus": True}),
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
        super().__init__(data, initial={name: value for name, value in (initial or {}).items() if value})
        self.caller, self.teams = caller, {team.pk: team for team in teams}
        self.workspaces, self.environments = self._workspaces(), self._environments()
        places = [*self.environments.values(), *(each.environment for each in self.workspaces.values())]
        self.fields["program"].is_given = True  # by the first agent that the environment names
        self.fields["program"].choices = _without_a_choice_of_one(agent_programs.choices(places))
        several = len(teams) > 1
        names = AgentDefinition.objects.filter(team__in=self.teams).order_by("name").values_list("name", flat=True)
        self.fields["definition"].choices = [("", gettext("None")), *((name, name) for name in names.distinct())]
        self.fields["place"].choices = [
            (gettext("In a new workspace of an environment"), _choices("environment", self.environments, several)),
            (gettext("In a workspace"), _choices("workspace", self.workspaces, several)),
        ]

        self._preselect()

    def _preselect(self):
        """Choose the place and agent of this person's last run, else the first place where an agent can start."""
        last = AgentRun.objects.work().filter(started_by=self.caller.user, team__in=self.teams)
        last = last.select_related("workspace__environment", "workspace__team").order_by("-created_at").first()
        if "place" not in self.initial:
            self.initial["place"] = self._place_of(last) or self._first_place()
        offered = dict(self.fields["program"].choices)
        if last and "program" not in self.initial and last.program_name in offered and self._names(last.program_name):
            self.initial["program"] = last.program_name

    def _place_of(self, run: AgentRun | None) -> str:
        """Return the choice of the run's environment; "" if nothing is made from it any more."""
        if run is None:
            return ""
        name = f"{run.workspace.team.slug}/{run.workspace.environment.name}"
        return f"environment:{name}" if name in self.environments else ""

    def _first_place(self) -> str:
        able = [name for name, each in self.environments.items() if _can_start(each)]
        names = [f"environment:{name}" for name in (*able, *self.environments)]
        return next(iter((*names, *(f"workspace:{name}" for name in self.workspaces))), "")

    def _names(self, program: str) -> bool:
        """Return whether the preselected place names the program."""
        kind, _, name = self.initial["place"].partition(":")
        place = self.environments.get(name) if kind == "environment" else self.workspaces.get(name)
        environment = place.environment if isinstance(place, Workspace) else place
        return environment is not None and any(each.startswith(f"{program}@") for each in environment.agent_programs)

    @property
    def first_fields(self) -> list:
        return [self[name] for name in self.FIRST]

    @property
    def more_fields(self) -> list:
        return [field for field in self.visible_fields() if field.name not in self.FIRST]

    @property
    def shows_more(self) -> bool:
        """Whether one of the fields below *More* is filled in or wrong."""
        return any(field.errors or field.value() for field in self.more_fields)

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


def _without_a_choice_of_one(choices: list) -> list:
    """Return the one agent alone, without the choice that stands for the first of several."""
    return choices[1:] if len(choices) == 2 else choices


def _can_start(environment: Environment) -> bool:
    """Return whether a program that the environment names can be started on this host."""
    named = environment.agent_programs if environment.capabilities.agent_programs else []
    return any(agent_programs.is_available(each) for each in named)


def _choices(kind: str, places: dict, several: bool) -> list[tuple[str, str]]:
    """Return the choices of one kind of places, with their team if there are several."""
    label = {"workspace": "key", "environment": "name"}[kind]
    of = {name: f" · {each.team.name}" if several else "" for name, each in places.items()}
    return [(f"{kind}:{name}", f"{getattr(each, label)}{of[name]}") for name, each in places.items()]
