"""Rules with conditions by a form: who may do what at which target, with the sentence that it means."""

import json
from dataclasses import dataclass

from django import forms
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_POST

from approvals.evaluation import policies, workers
from approvals.models import Policy
from approvals.pages.policy import sentences
from approvals.pages.policy.newly_part import newly_of
from approvals.pages.policy.scope import scope_of
from approvals.policy import TIERS, PolicyError, text_edits
from approvals.policy.verdict import ALLOWING
from approvals.reports.policy_changes import unknown_names
from approvals.reports.policy_changes.scopes import Scope
from dashboard.models import Agent
from dashboard.problems import Problem
from dashboard.web.pages import READ_OR_WRITE, carry_out, must, signed_in
from workspaces.services import environments

CONDITIONS = ("target", "agent", "environment", "hours", "on_duty", "undo")
MAX_TEXT, MAX_NAMES = 200_000, 200
WHAT = [
    ("writes", gettext_lazy("Writes: whatever may change something there")),
    ("reads", gettext_lazy("Reads: what only looks at something there")),
    ("calls", gettext_lazy("All calls")),
]
THEN = [
    ("low", gettext_lazy("run")),
    ("medium", gettext_lazy("run after a snapshot, and are logged")),
    ("high", gettext_lazy("ask one person")),
    ("critical", gettext_lazy("ask two people")),
    ("forbidden", gettext_lazy("are forbidden")),
]


class RuleForm(forms.Form):
    """The parts of one rule, with pickers of what the team has."""

    what = forms.ChoiceField(label=gettext_lazy("What"), choices=WHAT, initial="writes", widget=forms.RadioSelect)
    target = forms.ChoiceField(label=gettext_lazy("At the target"), required=False)
    agent = forms.ChoiceField(label=gettext_lazy("For the agent"), required=False)
    environment = forms.ChoiceField(label=gettext_lazy("In the environment"), required=False)
    hours = forms.CharField(
        label=gettext_lazy("At the hours"),
        required=False,
        max_length=100,
        help_text=gettext_lazy("Such as Mon-Fri 09:00-18:00 Europe/Berlin; with ! in front at all other times."),
    )
    on_duty = forms.ChoiceField(
        label=gettext_lazy("While"),
        required=False,
        choices=[
            ("", gettext_lazy("anybody or nobody is on duty")),
            ("true", gettext_lazy("somebody is on duty")),
            ("false", gettext_lazy("nobody is on duty")),
        ],
    )
    undo = forms.ChoiceField(
        label=gettext_lazy("Where"),
        required=False,
        choices=[
            ("", gettext_lazy("it can or can't be undone")),
            ("inside", gettext_lazy("a snapshot undoes it")),
            ("outside", gettext_lazy("it can be undone outside")),
            ("not", gettext_lazy("it can't be undone")),
        ],
    )
    then = forms.ChoiceField(
        label=gettext_lazy("Then they"), choices=THEN, initial="critical", widget=forms.RadioSelect
    )

    def __init__(self, data, scope: Scope, targets: dict, **more):
        super().__init__(data, **more)
        agents = Agent.objects.filter(team=scope.team).order_by("name").values_list("name", flat=True)[:MAX_NAMES]
        names = [each.name for each in environments.newest([scope.team.pk]).order_by("name")[:MAX_NAMES]]
        anywhere, every, each = gettext("any other system"), gettext("every agent"), gettext("every environment")
        for field, first, values in (
            ("target", anywhere, targets),
            ("agent", every, agents),
            ("environment", each, names),
        ):
            self.fields[field].choices = [("", first), *((value, value) for value in values)]

    def clean(self):
        said = super().clean()
        if not any((said.get(name) or "").strip() for name in CONDITIONS):
            raise forms.ValidationError(
                gettext("Choose a target, an agent, an environment, hours, duty or what undoes it.")
            )
        if said.get("then") in ALLOWING and not said.get("target") and "target" not in self.errors:
            self.add_error("target", gettext("Choose the target at which they may run."))
        return said

    def block(self) -> dict:
        """Return the block `[[when]]` that the form says."""
        said = self.cleaned_data
        conditions = {key: said[key].strip() for key in CONDITIONS if said[key].strip()}
        if "on_duty" in conditions:
            conditions["on_duty"] = conditions["on_duty"] == "true"
        return conditions | {said["then"]: [said["what"]]}


class TargetForm(forms.Form):
    name = forms.RegexField(r"^[A-Za-z][A-Za-z0-9_-]{0,39}$", label=gettext_lazy("Name"), required=False, max_length=40)
    entries = forms.CharField(
        label=gettext_lazy("What belongs to it, one a line"),
        required=False,
        max_length=10_000,
        widget=forms.Textarea(attrs={"rows": 4, "class": "code-field", "spellcheck": "false", "autocapitalize": "off"}),
        help_text=gettext_lazy(
            "kube:prod-* (a context), host:db.prod, host:*.example.com, branch:main, aws:prod (a profile), db:*prod*,"
            " gcloud:, azure:, terraform:, app:, namespace:, env:, mcp:"
        ),
    )

    def listed(self) -> list[str]:
        return [line.strip() for line in self.cleaned_data["entries"].splitlines() if line.strip()]


@dataclass(frozen=True)
class Draft:
    """A text that is not saved yet, as the form shows it. `problem`: why it cannot be saved as it is."""

    text: str
    sentences: list
    targets: dict
    warnings: list
    problem: str = ""

    @classmethod
    def of(cls, scope: Scope, text: str) -> "Draft":
        try:
            found = workers.check(text)
        except workers.Late as late:
            return cls(text, [], {}, [], str(late))
        if "problem" in found:
            return cls(text, [], {}, [], found["problem"])
        warnings = unknown_names.warnings_of(scope.team, found)
        problem = next(iter(found["never"]), "")
        return cls(text, sentences.of_blocks(found["blocks"]), found["targets"], warnings, problem)


@signed_in
@READ_OR_WRITE
def build(request):
    scope = scope_of(request)
    must(request.caller, "write_policy", scope.team)
    posted = request.POST if request.method == "POST" else {}
    text = posted.get("text", scope.policy.text).replace("\r\n", "\n")[:MAX_TEXT]
    base = _number(posted.get("base")) if posted else scope.base
    draft = Draft.of(scope, text)
    picked = {name: posted[name] for name in RuleForm.base_fields if name in posted}
    rule, target = RuleForm(None, scope, draft.targets, initial=picked), TargetForm()
    context = {
        "nav": "policy",
        "scope": scope,
        "base": base,
        "comment": posted.get("comment", "")[: policies.MAX_COMMENT],
    }
    if "add-rule" in posted:
        rule = RuleForm(posted, scope, draft.targets)
        draft, rule = _with_rule(draft, rule, scope)
    elif "add-target" in posted:
        target = TargetForm(posted)
        draft, target = _with_target(draft, target, scope)
        rule = RuleForm(None, scope, draft.targets, initial=picked)
    elif "remove" in posted:
        draft = _edited(draft, scope, lambda: text_edits.without_block(text, _number(posted["remove"])))
    elif "newly" in posted:
        context |= newly_of(scope, text)
    elif "save" in posted:
        try:
            where = {"team": scope.team, "environment": scope.row, "base": base}
            saved = policies.save(text, caller=request.caller, comment=context["comment"], **where)
        except Problem as problem:
            context["refused"] = problem.detail
        else:
            return _done(request, scope, saved)
    context |= {"draft": draft, "rule": rule, "target": target, "changed": draft.text != scope.policy.text}
    return render(request, "approvals/policy_rules.html", context)


@signed_in
@require_POST
def meaning(request):
    """Say in a sentence what the picks of the form mean."""
    scope = scope_of(request)
    must(request.caller, "write_policy", scope.team)
    draft = Draft.of(scope, request.POST.get("text", "")[:MAX_TEXT])
    rule = RuleForm(request.POST, scope, draft.targets)
    return render(request, "approvals/_policy_meaning.html", {"meaning": _meaning(rule)})


def _meaning(rule: RuleForm) -> str:
    if not rule.is_valid():
        return ""
    block = rule.block()
    rules = {tier: block.pop(tier) for tier in TIERS if tier in block}
    conditions = {key: [value if isinstance(value, str) else json.dumps(value)] for key, value in block.items()}
    single = {"conditions": conditions, "rules": rules, "labels": rules, "mode": "", "is_floor": False}
    return sentences.of_blocks([single])[0].text


def _number(text) -> int:
    return int(text) if str(text).isdecimal() and len(str(text)) < 10 else -1


def _done(request, scope: Scope, saved: Policy):
    say = gettext("Version %(number)s is now active.") % {"number": saved.number}
    return carry_out(request, lambda: saved, then=f"{reverse('policy')}?{scope.query}", say=say)


def _edited(draft: Draft, scope: Scope, change, form: forms.Form | None = None) -> Draft:
    """Return the draft after a change of its text; the error goes to the form if the change makes no policy."""
    try:
        found = Draft.of(scope, change())
    except PolicyError as error:
        found = Draft(draft.text, [], {}, [], str(error))
    if not found.problem:
        return found
    if form is not None:
        form.add_error(None, found.problem)
    return draft


def _with_rule(draft: Draft, form: RuleForm, scope: Scope) -> tuple[Draft, RuleForm]:
    if not form.is_valid():
        return draft, form
    found = _edited(draft, scope, lambda: text_edits.with_block(draft.text, form.block()), form)
    return (draft, form) if form.errors else (found, RuleForm(None, scope, found.targets))


def _with_target(draft: Draft, form: TargetForm, scope: Scope) -> tuple[Draft, TargetForm]:
    if form.is_valid() and not (form.cleaned_data["name"] and form.listed()):
        form.add_error("entries", gettext("A target needs a name, and at least one line of what belongs to it."))
    if not form.is_valid():
        return draft, form
    name, entries = form.cleaned_data["name"], form.listed()
    found = _edited(draft, scope, lambda: text_edits.with_target(draft.text, name, entries), form)
    return (draft, form) if form.errors else (found, TargetForm())
