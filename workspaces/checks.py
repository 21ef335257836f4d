"""The checks of workspaces: which there are, how each ended last, and after which snapshot; and its services."""

from dataclasses import dataclass

from django.db.models import Exists, F, OuterRef, Subquery, Window
from django.db.models.functions import RowNumber

from workspaces import effects
from workspaces.models import Command, Phase, Snapshot

# In the order in which they matter.
TONES = {
    "failed": "red",
    "unclear": "amber",
    "ended by a person": "amber",
    "running": "accent",
    "passed": "calm",
    "never run": "quiet",
}


@dataclass(frozen=True)
class Check:
    """A check of the environment and its last command, which has `after`: the number of the snapshot before it."""

    name: str
    text: str
    last: Command | None = None

    @property
    def state(self) -> str:
        if self.last is None:
            return "never run"
        if not effects.is_over(self.last.effect):
            return "running"
        if self.last.effect.phase == Phase.UNCERTAIN:
            return "unclear"
        if self.last.cancelled_at and self.last.exit_status != 0:
            return "ended by a person"
        return "passed" if self.last.exit_status == 0 else "failed"

    @property
    def tone(self) -> str:
        return TONES[self.state]


@dataclass(frozen=True)
class Service:
    """A service of the environment and its last command in the last run."""

    name: str
    text: str
    last: Command | None = None

    @property
    def runs(self) -> bool:
        return self.last is not None and not effects.is_over(self.last.effect)

    @property
    def state(self) -> str:
        if self.last is None:
            return "starts with the workspace"
        if self.runs:
            return "running"
        if self.last.cancelled_at:
            return "ended by a person"
        if self.last.run.ended_at:
            return "starts again with the workspace"
        return "done until the next start" if self.last.exit_status == 0 else "failed, and is started again"

    @property
    def tone(self) -> str:
        if self.runs:
            return "accent"
        return "red" if self.state.startswith("failed") else "quiet"


def services_of(workspace) -> list[Service]:
    """In the order of the environment. Comes with its environment."""
    ran = Command.objects.filter(workspace=workspace).exclude(service="").select_related("effect", "run")
    rank = Window(RowNumber(), partition_by=[F("service")], order_by=[F("created_at").desc()])
    last = {}
    if workspace.environment.services:
        last = {command.service: command for command in ran.annotate(rank=rank).filter(rank=1)}
    return [Service(name, text, last.get(name)) for name, text in workspace.environment.services.items()]


def checks_of(*workspaces) -> dict:
    """{workspace's pk: its checks, in the order of the environment}, in one query. Workspaces come with environment."""
    rank = Window(RowNumber(), partition_by=[F("workspace"), F("check_name")], order_by=[F("created_at").desc()])
    before = Snapshot.objects.filter(workspace=OuterRef("workspace"), created_at__lte=OuterRef("created_at"))
    asked = [workspace.pk for workspace in workspaces if workspace.environment.checks]
    ran = Command.objects.filter(workspace__in=asked).exclude(check_name="").annotate(rank=rank).filter(rank=1)
    after = Subquery(before.order_by("-number").values("number")[:1])
    last = {
        (command.workspace_id, command.check_name): command
        for command in ran.annotate(after=after).select_related("effect")
    }
    return {
        workspace.pk: [
            Check(name, text, last.get((workspace.pk, name))) for name, text in workspace.environment.checks.items()
        ]
        for workspace in workspaces
    }


def in_words(checks: list[Check]) -> tuple[str, str]:
    """(words, tone) of all checks on one line; nothing for none."""
    by_state: dict = {}
    for check in checks:
        by_state.setdefault(check.state, []).append(check.name)
    if not by_state:
        return "", ""
    order = [state for state in TONES if state in by_state]
    words = "; ".join(f"{', '.join(by_state[state])} {state}" for state in order)
    return words, TONES[order[0]]


def failing():
    """Filter for workspaces: the last command of some check of theirs ended with something else than 0."""
    ran = Command.objects.filter(ended_at__isnull=False).exclude(check_name="")
    later = Command.objects.filter(
        workspace=OuterRef("workspace"), check_name=OuterRef("check_name"), created_at__gt=OuterRef("created_at")
    )
    return Exists(ran.filter(~Exists(later), workspace=OuterRef("pk")).exclude(exit_status=0))
