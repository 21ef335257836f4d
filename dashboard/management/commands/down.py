import time

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db.models import Q

from dashboard.files.locks import is_locked
from dashboard.models import Actor
from dashboard.problems import Problem
from workspaces import lifecycle, operations
from workspaces.host import parts
from workspaces.models import Operation, Runner, State, Workspace
from workspaces.services import idle

TIMEOUT = 300.0  # seconds for all workspaces together
ALIVE_CHECK_INTERVAL = 5.0  # seconds between two checks that the runner is alive
STARTS = ("create", "resume")


class Command(BaseCommand):
    help = (
        "Stop all running workspaces of this host, each with a snapshot, and archive ephemeral ones. `make up` must be "
        "running, and keeps running."
    )
    requires_system_checks = []

    def handle(self, **options):
        if not parts.run_here("runner"):
            self.stdout.write("This host has no runner, so no workspace is on it. Ctrl-C ends its `make up`.")
            return
        self.deadline = time.monotonic() + TIMEOUT
        here = Q(workspace__runner=None) | Q(workspace__runner__host=settings.HANDRAIL_HOST_NAME)
        starts = Operation.objects.open().filter(here, kind__in=STARTS)
        troubles = [self._wait_for_start(start) for start in starts]
        asked = []
        for workspace in self._up_here():
            try:
                asked.append((workspace, lifecycle.stop(workspace, by=Actor.system("down"))))
            except Problem as problem:
                troubles.append(f"{workspace.key}: {problem.detail}")
        if not asked and not any(troubles):
            self.stdout.write("Nothing was running. What was stopped, paused or archived stays as it is.")
        for workspace, operation in asked:
            trouble = operation and self._stopped(operation)
            if not trouble and workspace.environment.ephemeral:
                trouble = self._archive(workspace)
            if trouble:
                troubles.append(f"{workspace.key}: {trouble}")
            else:
                done = "stopped and archived" if workspace.environment.ephemeral else "stopped"
                self.stdout.write(f"{workspace.key}: {done}")
        if any(troubles):
            raise CommandError("\n".join(filter(None, troubles)))

    def _up_here(self):
        ready = Workspace.objects.kept().filter(state=State.READY, runner__host=settings.HANDRAIL_HOST_NAME)
        return ready.select_related("environment").order_by("key")

    def _wait_for_start(self, start: Operation) -> str:
        """Wait until a workspace has started, so that it can be stopped; return a message if it does not."""
        if operations.is_over(self._wait(start)):
            return ""
        return f"{start.workspace.key}: still starting. Run this again once it has started."

    def _stopped(self, operation: Operation) -> str:
        """Return a message if the workspace was not stopped, or stopped without a snapshot; else ""."""
        over = self._wait(operation)
        if not operations.is_over(over):
            return "the runner did not respond. Is `make up` running? The workspace stops once it is."
        if not over.outcome["ok"]:
            return over.outcome["reason"]
        return f"stopped. {over.outcome['missing_snapshot']}" if over.outcome.get("missing_snapshot") else ""

    def _archive(self, workspace: Workspace) -> str:
        """Archive a stopped ephemeral workspace now; the runner may have begun it already. Return a message if not."""
        try:
            operation = lifecycle.archive(workspace, by=idle.EPHEMERAL)
        except Problem as problem:
            return f"stopped, but not archived: {problem.detail}"
        over = operation and self._wait(operation)
        if over is None or (operations.is_over(over) and over.outcome["ok"]):
            return ""
        why = (
            over.outcome["reason"] if operations.is_over(over) else "the runner did not respond. It is archived later."
        )
        return f"stopped, but not archived: {why}"

    def _wait(self, operation: Operation) -> Operation:
        """Return the operation once it is over, its runner is gone, or the time is up."""
        while True:
            operation = operations.wait(operation, ALIVE_CHECK_INTERVAL)
            if operations.is_over(operation) or time.monotonic() > self.deadline or _is_away(operation.runner):
                return operation


def _is_away(runner: Runner | None) -> bool:
    """Return True if the runner is gone. A local one is checked by its lock, which also works while it is busy."""
    if runner is not None and runner.host == settings.HANDRAIL_HOST_NAME:
        return not is_locked(settings.HANDRAIL_HOME / "runner.lock")
    return runner is None or not runner.is_alive
