"""The guide that sets an agent up: its program, its key, an environment and a trial, each on one page."""

from dataclasses import dataclass
from functools import partial

from django import forms
from django.contrib import messages
from django.http import Http404
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from approvals.agent_runs import set_up, trials
from dashboard.models import Team
from dashboard.problems import Problem
from dashboard.web.pages import carry_out, go_to, must, signed_in, take_form
from workspaces import extensions
from workspaces.services import agent_installs, environments

PLAIN = {"autocapitalize": "off", "autocomplete": "off", "spellcheck": "false"}
AS_CODE = PLAIN | {"class": "code-field"}
NEW = ""  # the choice of a new environment


class KeyForm(forms.Form):
    value = forms.CharField(
        label=gettext_lazy("Key"),
        max_length=set_up.KEY_LENGTHS[1] + 100,  # with what is pasted around it
        help_text=gettext_lazy("Kept encrypted as a secret, used by Handrail alone, and never shown again."),
        widget=forms.PasswordInput(attrs=AS_CODE),
    )


class PlaceForm(forms.Form):
    """Which environment the agent works in; `environment` is "" for a new one."""

    environment = forms.ChoiceField(label=gettext_lazy("Environment"), required=False)
    name = forms.CharField(
        label=gettext_lazy("Name"),
        required=False,
        max_length=80,
        widget=forms.TextInput(attrs=PLAIN),
        help_text=gettext_lazy("Of a new environment."),
    )
    repository = forms.CharField(
        label=gettext_lazy("Source"),
        required=False,
        max_length=500,
        widget=forms.TextInput(attrs=AS_CODE | {"placeholder": "https://"}),
        help_text=gettext_lazy(
            "The git address, or the path of a folder that the server allows, with which each workspace begins. Empty: "
            "an empty folder."
        ),
    )

    def __init__(self, data=None, *, found: set_up.SetUp):
        super().__init__(data, initial={"name": _free_name(found.team), "environment": NEW})
        others = set_up.could_take(found)
        self.fields["environment"].choices = [
            (NEW, gettext("A new environment")),
            *((each.name, each.name) for each in others),
        ]
        self.others = {each.name: each for each in others}
        if not others:
            self.fields["environment"].widget = forms.HiddenInput()


def _free_name(team: Team) -> str:
    """Return a name that no environment of the team has."""
    names = set(environments.newest_versions([team.pk]).values_list("name", flat=True))
    tried = [set_up.NEW_NAME, *(f"{set_up.NEW_NAME}-{number}" for number in range(2, len(names) + 3))]
    return next(name for name in tried if name not in names)


def _teams(caller) -> list[Team]:
    return [team for team in Team.objects.visible_to(caller).order_by("name") if caller.can("read", team)]


def _find(request, team: str, agent: str) -> set_up.SetUp:
    found = next((each for each in _teams(request.caller) if each.slug == team), None)
    if found is None or agent not in extensions.agent_programs:
        raise Http404("no such team or agent")
    return set_up.find(found, agent)


def _here(found: set_up.SetUp) -> str:
    return reverse("agent-set-up", args=[found.team.slug, found.program.name])


@signed_in
@require_safe
def choose(request):
    """List the agents that Handrail can start, with how far each is set up."""
    teams = _teams(request.caller)
    rows = [set_up.SetUp(team, program) for team in teams for program in extensions.agent_programs.values()]
    context = {"nav": "agent-runs", "rows": rows, "several": len(teams) > 1}
    return render(request, "approvals/agent_set_up_choose.html", context)


@signed_in
@require_safe
def guide(request, team, agent):
    """Show the steps, each with what is there, and the form of the next one."""
    return _page(request, _find(request, team, agent))


@dataclass(frozen=True)
class Step:
    """A step as the page shows it."""

    name: str
    title: str
    is_done: bool
    is_next: bool
    is_under_way: bool

    @property
    def element(self) -> str:
        return f"step-{self.name}"

    @property
    def template(self) -> str:
        return f"approvals/_set_up_{self.name}.html"

    @property
    def tone(self) -> str:
        return "calm" if self.is_done else "accent" if self.is_next else "quiet"


def _steps(found: set_up.SetUp) -> list[Step]:
    titles = {
        "program": gettext("The program"),
        "key": gettext("The key"),
        "environment": gettext("Where it works"),
        "trial": gettext("A trial"),
    }
    under_way = {"program": found.is_installing, "trial": found.is_trying}
    return [
        Step(name, titles[name], is_done, name == found.next_step, under_way.get(name, False))
        for name, is_done in found.steps.items()
    ]


def _page(request, found: set_up.SetUp, *, key: KeyForm | None = None, place: PlaceForm | None = None):
    caller, team = request.caller, found.team
    may = caller.can("manage_environments", team) and caller.can("manage_secrets", team)
    may = may and caller.can("start_agents", team)
    context = {
        "nav": "agent-runs",
        "found": found,
        "steps": _steps(found),
        "program": found.program,
        "provider": set_up.PROVIDERS[found.program.provider],
        "may": may,
        "who_may": [] if may else set_up.who_may(team),
        "key_form": key or KeyForm(),
        "place_form": place or PlaceForm(found=found),
        "set_anew": key is not None or found.key_state not in (set_up.MISSING, "set"),
        "others": [each for each in extensions.agent_programs.values() if each != found.program],
        "is_gateway": set_up.uses_gateway(found.program),
    }
    return render(request, "approvals/agent_set_up.html", context)


@signed_in
@require_POST
def install(request, team, agent):
    """Let the runner install the program."""
    found = _find(request, team, agent)
    must(request.caller, "manage_environments", found.team)
    return carry_out(
        request,
        lambda: agent_installs.ask(found.team, found.program, by=request.caller.actor),
        then=_here(found),
    )


@sensitive_post_parameters("value")
@signed_in
@require_POST
def key(request, team, agent):
    """Keep the provider's key."""
    found = _find(request, team, agent)
    must(request.caller, "manage_secrets", found.team)
    return take_form(
        request,
        KeyForm(request.POST),
        lambda fields: set_up.save_key(found, fields["value"], by=request.caller.actor),
        shown=lambda form: _page(request, found, key=form),
        then=_here(found),
        at="value",
        say=gettext("The key is kept."),
    )


@signed_in
@require_POST
def try_key(request, team, agent):
    """Ask the provider for the smallest answer with the key, and say what it answered."""
    from approvals.agent_runs.model_relay import key_check  # here: aiohttp takes 12 MB

    found = _find(request, team, agent)
    must(request.caller, "manage_secrets", found.team)
    about = found.team, found.program.provider, found.key_name, found.model
    try:
        answer = key_check.check(*about, by=request.caller.actor)
    except Problem as problem:
        messages.error(request, problem.detail)
    else:
        (messages.success if answer.is_good else messages.error)(request, answer.words)
    return go_to(request, _here(found))


@signed_in
@require_POST
def place(request, team, agent):
    """Make the environment, or add the agent to one that is there."""
    found = _find(request, team, agent)
    must(request.caller, "manage_environments", found.team)
    return take_form(
        request,
        (form := PlaceForm(request.POST, found=found)),
        lambda fields: _save_place(found, form, fields, request.caller.actor),
        shown=lambda form: _page(request, found, place=form),
        then=_here(found),
        at="name",
        say=lambda made: (
            gettext("Version %(version)s of %(name)s saved.") % {"version": made.version, "name": made.name}
        ),
    )


def _save_place(found: set_up.SetUp, form: PlaceForm, fields: dict, by):
    if base := form.others.get(fields["environment"]):
        return set_up.add_to_environment(found, base, by=by)
    return set_up.save_environment(found, fields["name"].strip(), repository=fields["repository"].strip(), by=by)


@signed_in
@require_POST
def try_it(request, team, agent):
    """Start a trial in the first environment that has the agent, or in the one that is named."""
    found = _find(request, team, agent)
    must(request.caller, "start_agents", found.team)
    named = request.POST.get("environment", "")
    chosen = next((each for each in found.environments if each.name == named or not named), None)
    if chosen is None:
        raise Http404("no such environment")
    do = partial(trials.start, chosen, found.program.name, caller=request.caller)
    return carry_out(request, do, then=_here(found))
