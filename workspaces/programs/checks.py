"""Checks and services of workspaces, each with its last result."""

from dataclasses import dataclass

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Subquery, TextChoices, Window
from django.db.models.functions import Coalesce, RowNumber
from django.utils.translation import gettext, gettext_lazy

from workspaces import operations
from workspaces.models import Command, Phase, ReasonCode, Snapshot


class CheckState(TextChoices):
    """The state of a check, most important first; the labels are shown."""

    FAILED = "failed", gettext_lazy("failed")
    UNCERTAIN = "uncertain", gettext_lazy("unclear")
    CANCELLED = "cancelled", gettext_lazy("stopped by a person")
    RUNNING = "running", gettext_lazy("running")
    PASSED = "passed", gettext_lazy("passed")
    NEVER_RUN = "never_run", gettext_lazy("not run yet")


class ServiceState(TextChoices):
    """The state of a service; the labels are shown."""

    NOT_STARTED = "not_started", gettext_lazy("starts with the workspace")
    RUNNING = "running", gettext_lazy("running")
    CANCELLED = "cancelled", gettext_lazy("stopped by a person")
    RUN_ENDED = "run_ended", gettext_lazy("starts again with the workspace")
    DONE = "done", gettext_lazy("done until the next start")
    FAILED = "failed", gettext_lazy("failed, restarting")


CHECK_TONES = {
    CheckState.FAILED: "red",
    CheckState.UNCERTAIN: "amber",
    CheckState.CANCELLED: "amber",
    CheckState.RUNNING: "accent",
    CheckState.PASSED: "calm",
    CheckState.NEVER_RUN: "quiet",
}
SERVICE_TONES = {ServiceState.RUNNING: "accent", ServiceState.FAILED: "red"}


def has_unknown_end(operation) -> bool:
    """Return whether nobody knows how a program ended, also if that is because its workspace ended with it."""
    return operation.phase == Phase.UNCERTAIN or (operation.outcome or {}).get("reason_code") == ReasonCode.LOST


@dataclass(frozen=True)
class Check:
    """A check of the environment and its last command; `last.after` is the number of the snapshot before it."""

    name: str
    text: str
    last: Command | None = None

    @property
    def state(self) -> CheckState:
        if self.last is None:
            return CheckState.NEVER_RUN
        if not operations.is_over(self.last.operation):
            return CheckState.RUNNING
        if has_unknown_end(self.last.operation):
            return CheckState.UNCERTAIN
        if self.last.cancelled_at and self.last.exit_status != 0:
            return CheckState.CANCELLED
        return CheckState.PASSED if self.last.exit_status == 0 else CheckState.FAILED

    @property
    def tone(self) -> str:
        return CHECK_TONES[self.state]


def counted(commands: QuerySet) -> QuerySet:
    """Leave out each try of a service that failed and was followed by another; `failures`: those up to the last one.

    A service that always fails is then one row for each run, not one for each try.
    """
    same = Command.objects.filter(run=OuterRef("run"), service=OuterRef("service")).exclude(service="")
    failed = same.filter(ended_at__isnull=False).exclude(exit_status=0)
    failures = failed.order_by().values("service").annotate(n=Count("*")).values("n")
    repeated = Q(ended_at__isnull=False) & ~Q(exit_status=0)
    later = Exists(same.filter(created_at__gt=OuterRef("created_at")))
    return commands.exclude(repeated & Q(later)).annotate(failures=Coalesce(Subquery(failures), 0))


@dataclass(frozen=True)
class Service:
    """A service of the environment and its last command in the last run."""

    name: str
    text: str
    last: Command | None = None
    failures: int = 0  # tries in the last run that failed

    @property
    def runs(self) -> bool:
        return self.last is not None and not operations.is_over(self.last.operation)

    @property
    def state(self) -> ServiceState:
        if self.last is None:
            return ServiceState.NOT_STARTED
        if self.runs:
            return ServiceState.RUNNING
        if self.last.cancelled_at or self.name in self.last.run.stopped_services:
            return ServiceState.CANCELLED
        if self.last.run.ended_at:
            return ServiceState.RUN_ENDED
        return ServiceState.DONE if self.last.exit_status == 0 else ServiceState.FAILED

    @property
    def may_stop(self) -> bool:
        """Whether it runs, or waits for its next try."""
        return self.runs or self.state == ServiceState.FAILED

    @property
    def fails_again(self) -> bool:
        """Whether it failed more than once since the workspace started, and is tried again."""
        return self.failures > 1 and self.state in (ServiceState.FAILED, ServiceState.RUNNING)

    @property
    def tone(self) -> str:
        return SERVICE_TONES.get(self.state, "quiet")


def services_of(workspace) -> list[Service]:
    """Return the services in the environment's order. Load the workspace with its environment."""
    ran = Command.objects.filter(workspace=workspace).exclude(service="").select_related("operation", "run")
    rank = Window(RowNumber(), partition_by=[F("service")], order_by=[F("created_at").desc()])
    last = {}
    if workspace.environment.services:
        last = {command.service: command for command in counted(ran).annotate(rank=rank).filter(rank=1)}
    return [
        Service(name, text, last.get(name), last[name].failures if name in last else 0)
        for name, text in workspace.environment.services.items()
    ]


def checks_of(*workspaces) -> dict:
    """Return {workspace pk: checks in the environment's order}, in one query. Load the workspaces with environment."""
    rank = Window(RowNumber(), partition_by=[F("workspace"), F("check_name")], order_by=[F("created_at").desc()])
    before = Snapshot.objects.filter(workspace=OuterRef("workspace"), created_at__lte=OuterRef("created_at"))
    asked = [workspace.pk for workspace in workspaces if workspace.environment.checks]
    ran = Command.objects.filter(workspace__in=asked).exclude(check_name="").annotate(rank=rank).filter(rank=1)
    after = Subquery(before.order_by("-number").values("number")[:1])
    last = {
        (command.workspace_id, command.check_name): command
        for command in ran.annotate(after=after).select_related("operation")
    }
    return {
        workspace.pk: [
            Check(name, text, last.get((workspace.pk, name))) for name, text in workspace.environment.checks.items()
        ]
        for workspace in workspaces
    }


def in_words(checks: list[Check]) -> tuple[str, str]:
    """Return (text, tone) for all checks on one line; empty strings without checks."""
    by_state: dict = {}
    for check in checks:
        by_state.setdefault(check.state, []).append(check.name)
    if not by_state:
        return "", ""
    order = [state for state in CheckState if state in by_state]
    if order == [CheckState.NEVER_RUN]:
        return gettext("Checks not run yet"), CHECK_TONES[CheckState.NEVER_RUN]
    words = "; ".join(f"{', '.join(by_state[state])} {state.label}" for state in order)
    return words, CHECK_TONES[order[0]]


def failing():
    """Return a workspace filter: the last run of at least one check ended with an exit status other than 0."""
    ran = Command.objects.filter(ended_at__isnull=False).exclude(check_name="")
    later = Command.objects.filter(
        workspace=OuterRef("workspace"), check_name=OuterRef("check_name"), created_at__gt=OuterRef("created_at")
    )
    return Exists(ran.filter(~Exists(later), workspace=OuterRef("pk")).exclude(exit_status=0))
