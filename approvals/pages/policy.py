"""The Policy page: the policies of a team and its environments, their rules, and an editor."""

from dataclasses import dataclass

from django import forms
from django.http import Http404
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from approvals import judges, policies
from approvals.models import Grant, Policy
from approvals.pages.forms import ExactField
from approvals.policy import MODES, TIERS, PolicyError
from dashboard import clock
from dashboard.models import Team
from dashboard.pages import READ_OR_WRITE, carry_out, must, signed_in
from dashboard.problems import Problem
from workspaces.diff import compare
from workspaces.models import Environment
from workspaces.services import environments

# {mode of a policy: what people are asked before}.
SENTENCES = {
    "irreversible": "People are asked before anything that can't be undone; everything else runs and is logged.",
    "commands": "People are asked before anything that can't be undone, and before commands.",
    "everything": "People are asked before everything.",
}
MAX_TRIED = 20_000  # characters of a command to try
FOLDER = "folder"


@dataclass(frozen=True)
class Scope:
    """What a policy applies to: a team, or one of its environments or connected folders."""

    team: Team
    environment: Environment | None = None
    own: Policy | None = None  # of the environment

    @property
    def policy(self) -> Policy:
        return self.own or policies.shown(self.team.pk)

    @property
    def label(self) -> str:
        if self.environment is None:
            return f"Team {self.team.name}"
        return f"{'Folder' if self.environment.driver == FOLDER else 'Environment'} {self.environment.name}"

    @property
    def query(self) -> str:
        """The query string of the page that shows it."""
        return urlencode(
            {"team": self.team.slug} | ({"environment": self.environment.name} if self.environment else {})
        )

    @property
    def row(self) -> Environment | None:
        """The environment version to save its next policy for; None for the team."""
        return self.own.environment if self.own else self.environment

    @property
    def base(self) -> int:
        """The number of the version that an edit starts from; 0 if there is none."""
        return self.own.number if self.own else 0 if self.environment else self.policy.number


def _team(request) -> Team:
    teams = Team.objects.visible_to(request.caller).order_by("created_at")
    if slug := request.GET.get("team"):
        teams = teams.filter(slug=slug)
    if (team := teams.first()) is None:
        raise Http404("no such team")
    return team


def _scopes(team) -> list[Scope]:
    """Return a scope for the team and for each of its environments and connected folders."""
    newest = environments.newest([team.pk]).order_by("name")[:200]
    saved = Policy.objects.filter(team=team, active=True).exclude(environment=None).select_related("environment")
    own = {each.environment.name: each for each in saved.order_by("environment__version")}
    return [Scope(team), *(Scope(team, each, own.get(each.name)) for each in newest)]


def _scope(request) -> Scope:
    team, name = _team(request), request.GET.get("environment")
    found = next((each for each in _scopes(team) if name in (each.environment and each.environment.name, "")), None)
    if found is None:
        raise Http404("no such environment")
    return found


@signed_in
@require_safe
def policy(request):
    scope = _scope(request)
    team, active = scope.team, scope.policy
    floor = policies.floor(active)
    versions = Policy.objects.filter(team=team, environment=active.environment_id)
    tried = request.GET.get("try", "")[:MAX_TRIED]
    return render(
        request,
        "approvals/policy.html",
        {
            "nav": "policy",
            "teams": Team.objects.visible_to(request.caller).order_by("name"),
            "team": team,
            "scope": scope,
            "scopes": _scopes(team),
            "policy": active,
            "versions": versions.select_related("by").order_by("-number")[:20],
            "tried": tried,
            "verdict": _try(tried, active, floor) if tried.strip() else None,
            "grants": Grant.objects.active(clock.now())
            .filter(team=team)
            .select_related("agent__owner", "workspace", "by")
            .order_by("expires_at")[:100],
            "may_decide": request.caller.can("decide", team),
            "may_write": request.caller.can("write_policy", team),
            **_rules(active, floor),
        },
    )


def _rules(policy, floor) -> dict:
    """Return {sentence, mode, tiers: [(tier, [rule])], tests, floor}, or {broken, sentence} if it does not load."""
    try:
        rules = policies.checked(policy)
        below = policies.checked(floor)["rules"].get("forbidden", []) if floor else []
    except (PolicyError, judges.Late) as error:
        return {"broken": str(error), "sentence": "The policy can't be read, so everything needs approval."}
    return {
        "sentence": SENTENCES[rules["mode"]],
        "mode": MODES[rules["mode"]],
        "tiers": [(tier, rules["rules"].get(tier, [])) for tier in reversed(TIERS)],
        "tests": rules["tests"],
        "floor": below,
    }


def _try(command: str, policy, floor):
    """Return the policy's verdict on a command in a workspace; None if it cannot be evaluated."""
    world = {"cwd": "/workspace", "workspace_root": "/workspace"}
    try:
        policies.checked(policy)
        return judges.classify("Bash", {"command": command}, policy=policy, floor=floor, **world)
    except (PolicyError, judges.Late):
        return None


class PolicyForm(forms.Form):
    text = ExactField(label="Rules")
    base = forms.IntegerField(widget=forms.HiddenInput())  # the number of the version that is edited


@signed_in
@READ_OR_WRITE
def edit(request):
    scope = _scope(request)
    must(request.caller, "write_policy", scope.team)
    if request.method == "POST" and "end" in request.POST:
        return _end(request, scope)
    form = PolicyForm(request.POST or None, initial={"text": scope.policy.text, "base": scope.base})
    difference = None
    if request.method == "POST" and form.is_valid():
        text, base = form.cleaned_data["text"], form.cleaned_data["base"]
        where = {"team": scope.team, "environment": scope.row, "base": base}
        try:
            saved = policies.save(text, caller=request.caller, **where)
        except Problem as problem:
            form.add_error("text", problem.detail)
            if problem.status == 409:
                scope = _scope(request)
                difference = _since(scope, base)
                form.data = request.POST.copy()
                form.data["base"] = scope.base
        else:
            return carry_out(
                request,
                lambda: saved,
                then=f"{reverse('policy')}?{scope.query}",
                say=f"Version {saved.number} is now active.",
            )
    context = {"nav": "policy", "scope": scope, "form": form, "policy": scope.policy, "difference": difference}
    return render(request, "approvals/policy_edit.html", context)


def _since(scope: Scope, base: int):
    """Return the diff from the version that was edited to the one that was saved meanwhile."""
    before = Policy.objects.filter(team=scope.team, environment=scope.row, number=base).first()
    before = before or policies.shown(scope.team.pk)
    return compare("policy.toml", before.text.encode(), scope.policy.text.encode())


def _end(request, scope: Scope):
    """Deactivate an environment's own policy, so that the team's applies again."""
    if scope.own is None:
        return redirect(f"{reverse('policy')}?{scope.query}")
    return carry_out(
        request,
        lambda: policies.retire(scope.own.environment, actor=request.caller.actor),
        then=f"{reverse('policy')}?{scope.query}",
        say=f"{scope.label} now uses the team's policy.",
    )
