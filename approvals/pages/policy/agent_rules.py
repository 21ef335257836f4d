"""Rules of agents' own settings on a page: what becomes of each line, and the policy in force written as theirs."""

from django import forms
from django.shortcuts import render
from django.utils.translation import gettext_lazy

from approvals.evaluation import policies
from approvals.pages.exact_field import ExactField
from approvals.pages.policy.scope import scope_of
from approvals.policy import TIERS, PolicyError, read_policy
from approvals.policy.rule_files import AGENTS, lines_of, written
from dashboard.web.pages import READ_OR_WRITE, must, signed_in

MAX_TEXT = 500_000
NAMES = {
    "claude": gettext_lazy("Claude Code: permissions in .claude/settings.json"),
    "codex": gettext_lazy("Codex: prefix rules in a .rules file"),
}


class ImportForm(forms.Form):
    agent = forms.ChoiceField(
        label=gettext_lazy("Rules of"),
        choices=[(agent, NAMES[agent]) for agent in AGENTS],
        initial=AGENTS[0],
        widget=forms.RadioSelect,
    )
    text = ExactField(
        label=gettext_lazy("The file's text"),
        rows=10,
        max_length=MAX_TEXT,
        help_text=gettext_lazy("Nothing of it is run, and nothing is saved."),
    )


@signed_in
@READ_OR_WRITE
def agent_rules(request):
    scope = scope_of(request)
    must(request.caller, "write_policy", scope.team)
    form = ImportForm(request.POST or None)
    context = {"nav": "policy", "scope": scope, "form": form}
    if request.method == "POST" and form.is_valid():
        try:
            lines = lines_of(form.cleaned_data["agent"], form.cleaned_data["text"])
        except PolicyError as error:
            form.add_error("text", str(error))
        else:
            context |= {"lines": lines, "proposed": _with_lines(scope.policy.text, lines)}
    if (agent := request.GET.get("as")) in AGENTS:
        context |= _written(agent, scope)
    return render(request, "approvals/agent_rules.html", context | {"names": NAMES})


def _with_lines(text: str, lines: list) -> str:
    """Return a policy's text with the rules that were taken; "" if they are there already or can't be added."""
    added = text
    for tier in TIERS:
        rules = list(dict.fromkeys(line.rule for line in lines if line.tier == tier))
        known = {rule.written for rule in read_policy(added).tier(tier)}
        if new := [rule for rule in rules if rule not in known]:
            added = policies.with_rules(added, tier, new)
    return added if added != text else ""


def _written(agent: str, scope) -> dict:
    """Return {written, written_as, not_written}: the policy in force as the agent's own rules."""
    try:
        text, found = written(agent, read_policy(scope.policy.text))
    except PolicyError as error:
        return {"not_written": [["", str(error)]], "written": "", "written_as": NAMES[agent]}
    return {"written": text, "written_as": NAMES[agent], "not_written": found.left_out}
