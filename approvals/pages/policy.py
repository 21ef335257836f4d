"""The Policy page: the policies of a team and its environments, their rules, and an editor."""

from django import forms
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_safe

from approvals import judges, policies
from approvals.models import Grant, Policy
from approvals.pages.exact_field import ExactField
from approvals.pages.past import question_of
from approvals.pages.policy_scope import Scope, scope_of, scopes_of
from approvals.policy import MODES, TIERS, PolicyError
from dashboard import clock
from dashboard.models import Team
from dashboard.pages import READ_OR_WRITE, carry_out, must, signed_in
from dashboard.problems import Problem
from workspaces.diff import compare

# {mode of a policy: what people are asked before}.
SENTENCES = {
    "irreversible": gettext_lazy(
        "People are asked before anything that can't be undone; everything else runs and is logged."
    ),
    "commands": gettext_lazy("People are asked before anything that can't be undone, and before commands."),
    "everything": gettext_lazy("People are asked before everything."),
}
MAX_ADDED, MAX_RULE = 5, 1000  # rules that a link can add to the text, and characters of each
MAX_TRIED = 20_000  # characters of a command to try


@signed_in
@require_safe
def policy(request):
    scope = scope_of(request)
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
            "scopes": scopes_of(team),
            "policy": active,
            "versions": versions.select_related("by").order_by("-number")[:20],
            "tried": tried,
            "verdict": _try(tried, active, floor) if tried.strip() else None,
            "grants": Grant.objects.active(clock.now())
            .filter(team=team)
            .select_related("agent__owner", "workspace", "by")
            .order_by("expires_at")[:100],
            "may_decide": request.caller.can("decide", team),
            "may_write": (may_write := request.caller.can("write_policy", team)),
            "past": question_of(scope) if may_write else None,
            **_rules(active, floor),
        },
    )


def _rules(policy, floor) -> dict:
    """Return {sentence, mode, tiers: [(tier, [rule])], tests, floor}, or {broken, sentence} if it does not load."""
    try:
        rules = policies.checked(policy)
        below = policies.checked(floor)["rules"].get("forbidden", []) if floor else []
    except (PolicyError, judges.Late) as error:
        return {"broken": str(error), "sentence": gettext("The policy can't be read, so everything needs approval.")}
    return {
        "sentence": SENTENCES[rules["mode"]],
        "mode": MODES[rules["mode"]],
        "tiers": [(tier, rules["rules"].get(tier, [])) for tier in reversed(TIERS)],
        "tests": rules["tests"],
        "trust": rules["trust"],
        "rehearse": " and ".join(rules["rehearse"]),
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
    text = ExactField(label=gettext_lazy("Rules"))
    base = forms.IntegerField(widget=forms.HiddenInput())  # the number of the version that is edited


@signed_in
@READ_OR_WRITE
def edit(request):
    scope = scope_of(request)
    must(request.caller, "write_policy", scope.team)
    if request.method == "POST" and "end" in request.POST:
        return _end(request, scope)
    added = [rule for rule in request.GET.getlist("add")[:MAX_ADDED] if 0 < len(rule) <= MAX_RULE and "\0" not in rule]
    text = policies.with_low_rules(scope.policy.text, added) if added else scope.policy.text
    form = PolicyForm(request.POST or None, initial={"text": text, "base": scope.base})
    difference = None
    if request.method == "POST" and form.is_valid():
        text, base = form.cleaned_data["text"], form.cleaned_data["base"]
        where = {"team": scope.team, "environment": scope.row, "base": base}
        try:
            saved = policies.save(text, caller=request.caller, **where)
        except Problem as problem:
            form.add_error("text", problem.detail)
            if problem.status == 409:
                scope = scope_of(request)
                difference = _since(scope, base)
                form.data = request.POST.copy()
                form.data["base"] = scope.base
        else:
            return carry_out(
                request,
                lambda: saved,
                then=f"{reverse('policy')}?{scope.query}",
                say=gettext("Version %(number)s is now active.") % {"number": saved.number},
            )
    context = {"nav": "policy", "scope": scope, "form": form, "policy": scope.policy, "difference": difference}
    context["added"] = added if text != scope.policy.text else []
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
        say=gettext("%(label)s now uses the team's policy.") % {"label": scope.label},
    )
