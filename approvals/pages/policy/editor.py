"""The editor of a policy: rules that a link adds, the effect of the text before it is saved, and saving."""

from django import forms
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy

from approvals.evaluation import policies, workers
from approvals.models import Policy
from approvals.pages.exact_field import ExactField
from approvals.pages.policy.newly_part import newly_of
from approvals.pages.policy.replays import started
from approvals.pages.policy.scope import scope_of
from approvals.policy import TIERS
from approvals.reports.policy_changes import effect, history
from approvals.reports.policy_changes.scopes import Scope
from dashboard.problems import Problem
from dashboard.web.pages import READ_OR_WRITE, carry_out, must, signed_in

MAX_ADDED, MAX_RULE = 5, 1000  # rules that a link can add to the text, and characters of each


class PolicyForm(forms.Form):
    text = ExactField(label=gettext_lazy("Rules"), rows=16)
    comment = forms.CharField(
        label=gettext_lazy("What changes, and why"), required=False, max_length=policies.MAX_COMMENT
    )
    base = forms.IntegerField(widget=forms.HiddenInput())  # the number of the version that is edited


@signed_in
@READ_OR_WRITE
def edit(request):
    scope = scope_of(request)
    must(request.caller, "write_policy", scope.team)
    if request.method == "POST" and "end" in request.POST:
        return _end(request, scope)
    added, to = _added(request)
    text = policies.with_rules(scope.policy.text, to, added) if added else scope.policy.text
    initial = {"text": text, "base": scope.base, "comment": _comment(request, added, to)}
    form = PolicyForm(request.POST or None, initial=initial)
    context = {"nav": "policy", "added": added if text != scope.policy.text else [], "to": to}
    if request.method == "POST" and form.is_valid():
        if "effect" in request.POST:
            context |= _effect(form, scope)
        elif "newly" in request.POST:
            context |= _newly(form, scope)
        else:
            try:
                saved = _save(form, scope, request.caller)
            except Problem as problem:
                scope, more = _refused(request, form, scope, problem)
                context |= more
            else:
                say = gettext("Version %(number)s is now active.") % {"number": saved.number}
                return carry_out(request, lambda: saved, then=f"{reverse('policy')}?{scope.query}", say=say)
    return render(request, "approvals/policy_edit.html", context | {"scope": scope, "form": form})


def _added(request) -> tuple[list[str], str]:
    """Return the rules that the address adds, and the list that they are added to."""
    rules = [rule for rule in request.GET.getlist("add")[:MAX_ADDED] if 0 < len(rule) <= MAX_RULE and "\0" not in rule]
    to = request.GET.get("to", "low")
    return rules, to if to in TIERS else "low"


def _comment(request, added: list[str], to: str) -> str:
    """Return what the comment holds at first: the card that the rules come from."""
    number = request.GET.get("card", "")
    return f"A rule of A-{number} in {to}" if added and number.isdecimal() and len(number) < 10 else ""


def _save(form: PolicyForm, scope: Scope, caller) -> Policy:
    wish = form.cleaned_data
    where = {"team": scope.team, "environment": scope.row, "base": wish["base"]}
    return policies.save(wish["text"], caller=caller, comment=wish["comment"], **where)


def _refused(request, form: PolicyForm, scope: Scope, problem: Problem) -> tuple[Scope, dict]:
    """Return the scope as it is now, and the difference to the version that was saved meanwhile, if one was."""
    form.add_error("text", problem.detail)
    if problem.status != 409:
        return scope, {}
    scope, base = scope_of(request), form.cleaned_data["base"]
    form.data = request.POST.copy()
    form.data["base"] = scope.base
    return scope, {"difference": _since(scope, base)}


def _effect(form: PolicyForm, scope: Scope) -> dict:
    """Return what the text would have done with the calls of the last month; an error of the form if it is invalid."""
    text = form.cleaned_data["text"]
    try:
        replay = effect.Replay(scope, text)
        proposed = Policy(team=scope.team, environment=scope.environment, text=text, sha256="")
        shadowed = workers.check(text, below=below.text if (below := policies.floor(proposed)) else "")["shadowed"]
    except Problem as problem:
        form.add_error("text", problem.detail)
        return {}
    except workers.Late as late:
        form.add_error("text", gettext("The effect could not be worked out: %(late)s.") % {"late": late})
        return {}
    return started(replay, shadowed)


def _newly(form: PolicyForm, scope: Scope) -> dict:
    """Return what the text changes for all calls; an error of the form if it is invalid."""
    found = newly_of(scope, form.cleaned_data["text"])
    if "refused" in found:
        form.add_error("text", found["refused"])
    return found


def _since(scope: Scope, base: int):
    """Return the diff from the version that was edited to the one that was saved meanwhile."""
    before = scope.versions.filter(number=base).first() or policies.for_display(scope.team.pk)
    return history.difference(before, scope.policy)


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
