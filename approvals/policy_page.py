"""The Policy page: a sentence of what is asked now, the rules, and the editor whose tests must hold."""

from django import forms
from django.http import Http404
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from approvals import policies
from approvals.forms import ExactField
from approvals.models import Grant, Policy
from approvals.policy import MODES, TIERS, PolicyError, classify
from dashboard import clock
from dashboard.models import Team
from dashboard.pages import carry_out, must, signed_in
from dashboard.problems import Problem

# What is asked now, by the mode of the policy.
SENTENCES = {
    "irreversible": "Agents are asked before what cannot be undone; the rest runs and is in the log.",
    "commands": "Agents are asked before what cannot be undone, and before commands.",
    "everything": "Agents are asked before everything.",
}
TRIED = 20_000  # characters of a command to try


def _team(request) -> Team:
    teams = Team.objects.visible_to(request.caller).order_by("created_at")
    if slug := request.GET.get("team"):
        teams = teams.filter(slug=slug)
    if (team := teams.first()) is None:
        raise Http404("no such team")
    return team


@signed_in
@require_safe
def policy(request):
    team = _team(request)
    active = policies.shown(team.pk)
    versions = Policy.objects.filter(team=team, environment=None).select_related("by").order_by("-number")
    tried = request.GET.get("try", "")[:TRIED]
    return render(
        request,
        "approvals/policy.html",
        {
            "nav": "policy",
            "team": team,
            "policy": active,
            "versions": versions[:20],
            "tried": tried,
            "verdict": _try(tried, active) if tried.strip() else None,
            "grants": Grant.objects.in_force(clock.now())
            .filter(team=team)
            .select_related("agent__owner", "workspace", "by")
            .order_by("expires_at")[:100],
            "may_decide": request.caller.can("decide", team),
            "may_write": request.caller.can("write_policy", team),
            **_rules(active),
        },
    )


def _rules(policy) -> dict:
    """{sentence, mode, tiers: [(tier, [rule]…)], tests, broken}; a policy that no longer loads says why."""
    try:
        rules = policies.compiled(policy)
    except PolicyError as error:
        return {"broken": str(error), "sentence": "The policy cannot be read, so agents are asked before everything."}
    return {
        "sentence": SENTENCES[rules.mode],
        "mode": MODES[rules.mode],
        "tiers": [(tier, [rule.text for rule in rules.tier(tier)]) for tier in reversed(TIERS)],
        "tests": len(rules.tests),
    }


def _try(command: str, policy):
    """What this policy says of a command in a workspace; None when it cannot be asked."""
    try:
        rules = policies.compiled(policy)
        return classify("Bash", {"command": command}, policy=rules, cwd="/workspace", workspace_root="/workspace")
    except PolicyError:
        return None


class PolicyForm(forms.Form):
    text = ExactField(label="Rules")


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def edit(request):
    team = _team(request)
    must(request.caller, "write_policy", team)
    active = policies.shown(team.pk)
    form = PolicyForm(request.POST or None, initial={"text": active.text})
    if request.method == "POST" and form.is_valid():
        try:
            saved = policies.save(form.cleaned_data["text"], caller=request.caller, team=team)
        except Problem as problem:
            form.add_error("text", problem.detail)
        else:
            return carry_out(
                request,
                lambda: saved,
                then=f"{reverse('policy')}?team={team.slug}",
                say=f"Version {saved.number} is in force from now on.",
            )
    context = {"nav": "policy", "team": team, "form": form, "policy": active}
    return render(request, "approvals/policy_edit.html", context)
