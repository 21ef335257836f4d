"""Names in the conditions of a policy that nothing in the team has, so that their rules never decide."""

from django.utils.translation import gettext, gettext_lazy

from approvals.policy.globs import Glob
from dashboard.models import Agent
from workspaces.models import Environment, WorkspaceLabel

# {condition: what is said of a name that nothing has}.
SAYS = {
    "agent": gettext_lazy("No agent of this team is named %(name)s, so a rule for it never decides."),
    "environment": gettext_lazy("No environment of this team is named %(name)s, so a rule for it never decides."),
    "label": gettext_lazy("No workspace of this team has the label %(name)s, so a rule for it never decides."),
}


def sentences(team, blocks: list[dict]) -> list[str]:
    """Return a sentence for each name in the conditions of these blocks (of workers.check) that the team lacks."""
    asked = {key: [] for key in SAYS}
    for block in blocks:
        for key in SAYS:
            asked[key] += [text.removeprefix("!") for text in block["conditions"].get(key, [])]
    found = []
    for key, texts in asked.items():
        known = _known(key, team) if texts else []
        found += [
            gettext(SAYS[key]) % {"name": text}
            for text in dict.fromkeys(texts)
            if not any(Glob(text).fits(name) for name in known)
        ]
    return found


def warnings_of(team, checked: dict) -> list[str]:
    """Return all that a policy is warned of, as workers.check found it: rules that never decide, unknown names."""
    return [*checked["warnings"], *sentences(team, checked["blocks"])]


def _known(key: str, team) -> list[str]:
    if key == "agent":
        return list(Agent.objects.filter(team=team).values_list("name", flat=True))
    if key == "environment":
        return list(Environment.objects.filter(team=team).values_list("name", flat=True).distinct())
    labels = WorkspaceLabel.objects.filter(workspace__team=team).values_list("name", "value").distinct()
    return [f"{name}:{value}" for name, value in labels]
