"""Evidence for taking back what an action did outside: each step, the commits that go, and whose token is sent."""

from django.conf import settings
from django.utils import translation

from approvals.evaluation.own_verbs import gathers
from dashboard.problems import Problem
from dashboard.text.counts import counted
from workspaces import code_hosts
from workspaces.services import pull_requests, taking_back
from workspaces.services.taking_back import PUT_BACK, SHORT

from .findings import Finding
from .pushes import without_secret


@gathers("Handrail.TakeBack")
def taken_back(place, arguments: dict, text: str) -> Finding:
    """Return what each step does, and that nothing is changed if one no longer fits."""
    finding = Finding(1, text, [])
    for step in arguments.get("steps", []):
        if step["do"] == PUT_BACK:
            _say_ref(finding, place, step)
        else:
            _say_at_host(finding, place, step)
    finding.says.append("All of it is looked at first: if one part no longer fits, nothing is changed.")
    return finding


def _say_ref(finding: Finding, place, step: dict):
    name, remote = taking_back.name_of(step["ref"]), without_secret(step["remote"])
    if not step["to"]:
        finding.says.append(f"Deletes {name} at {remote}, if it is still at {step['if_at'][:SHORT]}.")
        return
    still = f"still at {step['if_at'][:SHORT]}" if step["if_at"] else "still not there"
    finding.says.append(f"Puts {name} at {remote} back to {step['to'][:SHORT]}, if it is {still}.")
    if not step["if_at"]:
        return
    told = place.ask("git-since", {"folder": "", "base": step["to"], "tip": step["if_at"]})
    if "error" in told:
        finding.says.append(f"Can't tell which commits {name} loses: {told['error']}")
        return
    finding.says.append(f"Removes {counted(len(told['commits']), 'commit')} from {name}.")
    finding.commits += [(commit["sha"][:10], commit["subject"]) for commit in told["commits"]]


def _say_at_host(finding: Finding, place, step: dict):
    repository = code_hosts.repository_of(step["repository"])
    with translation.override(settings.LANGUAGE_CODE):  # the evidence is kept with the decision
        words = taking_back.words_of([step])
    finding.says.append(f"{words[0].upper()}{words[1:]} in {repository.path} at {repository.site}.")
    try:
        secret = pull_requests.secret_for(place.workspace.team_id, repository)
    except Problem:
        return
    if secret is not None:
        finding.says.append(f"Sends the token in the secret {secret.name} to {repository.base} and nowhere else.")
