"""What a purge may change in which rows: a Rule for each model that differs from *replace it everywhere*.

`approvals` registers the rules of its models in `extensions.scrub_rules`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from django.db.models import Q

from workspaces import extensions
from workspaces.models import Phase

NAME = "it is a name: rename or delete what it names"


@dataclass(frozen=True)
class Rule:
    """How to treat the rows of a model.

    `bound`: {field: why it is not changed}, "*" for all fields. `busy`: rows that are not changed now, and why.
    `read`: {field: function from its bytes to those that are searched}. `cleared`: fields that become empty as a whole.
    `deletes`: the row is deleted as a whole. `url`: of a row. `name`: of a row, for people, and not cut: the value is
    taken out first, or a part of it would remain where a cut split it.
    """

    bound: dict[str, str] = field(default_factory=dict)
    busy: Q | None = None
    why_busy: str = ""
    read: dict[str, Callable[[bytes], bytes]] = field(default_factory=dict)
    cleared: frozenset[str] = frozenset()
    deletes: bool = False
    name: Callable[[object], str] = str
    url: Callable[[object], str] = lambda row: ""

    def why_kept(self, name: str) -> str:
        return self.bound.get(name) or self.bound.get("*", "")


OWN = {
    "dashboard.agent": Rule(bound={"name": NAME}),
    "dashboard.event": Rule(bound={"*": "the hash chain of the log binds each event"}),
    "dashboard.team": Rule(bound={"name": NAME, "slug": NAME}),
    "dashboard.token": Rule(bound={"*": "only a hash of a token is kept"}),
    "workspaces.artifact": Rule(bound={"name": NAME, "key": NAME, "paths": "its files are named so"}),
    "workspaces.checkpoint": Rule(bound={"name": NAME}),
    "workspaces.command": Rule(busy=Q(ended_at=None), why_busy="the command has not ended", name=lambda row: row.shown),
    "workspaces.credential": Rule(bound=dict.fromkeys(("name", "variable", "header", "hosts", "environments"), NAME)),
    "workspaces.environment": Rule(bound={"name": NAME}),
    "workspaces.homelayer": Rule(bound={"key": NAME, "folders": "its files are named so"}),
    "workspaces.manifest": Rule(bound={"*": "the signature of a manifest binds it; it goes with its snapshot"}),
    "workspaces.operation": Rule(
        busy=~Q(phase__in=[Phase.SETTLED, Phase.UNCERTAIN]), why_busy="the operation has not ended"
    ),
    "workspaces.purgereceipt": Rule(bound={"*": "the signature of a receipt binds it"}),
    "workspaces.rehearsal": Rule(busy=Q(ended_at=None), why_busy="the command has not ended"),
    "workspaces.schedule": Rule(bound=dict.fromkeys(("name", "environment", "check_name", "cron", "zone"), NAME)),
    "workspaces.screenshot": Rule(deletes=True),
    "workspaces.secret": Rule(bound={"name": NAME}),
    "workspaces.terminal": Rule(busy=Q(ended_at=None), why_busy="the terminal is open"),
    "workspaces.workspace": Rule(bound={"key": NAME}),
}
NONE = Rule()


def of(model) -> Rule:
    label = model._meta.label_lower
    return OWN.get(label) or extensions.scrub_rules.get(label) or NONE
