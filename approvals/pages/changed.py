"""The page *What changed*: over all workspaces in a span of time, by repository, agent or risk."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.shortcuts import render
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_safe

from approvals.reports.changed_since import TIERS, Changed, changed_since
from dashboard.database import clock
from dashboard.text.labels import TIERS as TIER_LABELS
from dashboard.web import spans
from dashboard.web.pages import parameters, signed_in, without
from workspaces.changes.comparisons import Lines
from workspaces.programs.checks import in_words

REPOSITORY, AGENT, RISK = "repository", "agent", "risk"
GROUPINGS = {
    REPOSITORY: gettext_lazy("By repository"),
    AGENT: gettext_lazy("By agent"),
    RISK: gettext_lazy("By risk"),
}


@dataclass
class Row:
    """A workspace that changed, as the page shows it."""

    changed: Changed

    @property
    def checks(self) -> tuple[str, str]:
        return in_words(self.changed.checks)

    @property
    def calls(self) -> int:
        """How many calls ran there."""
        return self.changed.actions.total()


@dataclass
class Group:
    """Rows with one repository, agent or tier; `agent` is the row of it, if it is one."""

    label: str
    rows: list[Row]
    agent: object = None

    @property
    def lines(self) -> Lines:
        """The sum of what was counted."""
        counted = [row.changed.lines for row in self.rows if row.changed.lines]
        sums = (sum(getattr(lines, name) for lines in counted) for name in ("additions", "deletions", "files"))
        return Lines(*sums, are_all=all(lines.are_all for lines in counted))


@signed_in
@require_safe
def changed(request):
    caller, now = request.caller, clock.now()
    span = spans.span_of(request, now, default=spans.VISIT)
    by = parameters(request, "by")["by"]
    by = by if by in GROUPINGS else REPOSITORY
    found = changed_since(caller, span.since, span.until)
    rest = without(request, "by")
    return render(
        request,
        "approvals/changed.html",
        {
            "nav": "desk",
            "span": span,
            "span_words": spans.in_words(span),
            "spans": spans.links(request, span, now),
            "groupings": [(_grouped(name, rest), label, name == by, None) for name, label in GROUPINGS.items()],
            "by": by,
            "groups": _groups([Row(each) for each in found.rows], by),
            "found": found,
            "shown": len(found.rows),
        },
    )


def _grouped(name: str, rest: str) -> str:
    return f"?{urlencode({'by': name})}" + (f"&{rest}" if rest else "")


def _groups(rows: list[Row], by: str) -> list[Group]:
    groups: dict = {}
    for row in rows:
        for key, label, agent in _places(row.changed, by):
            groups.setdefault(key, Group(label, [], agent)).rows.append(row)
    if by == RISK:
        return [groups[tier] for tier in sorted(groups, key=_risk, reverse=True)]
    return list(groups.values())


def _risk(tier: str) -> int:
    return TIERS.index(tier) if tier else -1


def _places(row: Changed, by: str) -> list[tuple]:
    """Return the groups of a row: (key, label, agent). By agent it is listed with each of its agents."""
    if by == REPOSITORY:
        return [(row.repository, row.repository or gettext("No repository"), None)]
    if by == RISK:
        return [(row.tier, TIER_LABELS[row.tier][0] if row.tier else gettext("No action of an agent"), None)]
    return [(agent.pk, "", agent) for agent in row.agents] or [(None, gettext("No action of an agent"), None)]
