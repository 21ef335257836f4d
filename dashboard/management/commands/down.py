import time

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from dashboard.models import Actor
from dashboard.problems import Problem
from workspaces import effects, lifecycle
from workspaces.drivers.local import held
from workspaces.models import Effect, Runner, State, Workspace

PATIENCE = 300.0  # seconds for all of them together
LOOK = 5.0  # seconds after which it is seen whether the runner is there
STARTS = [f"{lifecycle.KINDS}.{kind}" for kind in ("create", "resume")]


class Command(BaseCommand):
    help = "Stop every workspace that is up, each with a snapshot. `make up` must be running; it goes on running."
    requires_system_checks = []

    def handle(self, **options):
        self.deadline = time.monotonic() + PATIENCE
        troubles = [self._come_up(start) for start in Effect.objects.open().filter(kind__in=STARTS)]
        asked = []
        for workspace in Workspace.objects.kept().filter(state=State.READY).order_by("key"):
            try:
                asked.append((workspace, lifecycle.stop(workspace, by=Actor.system("down"))))
            except Problem as problem:
                troubles.append(f"{workspace.key}: {problem.detail}")
        for workspace, effect in asked:
            if trouble := effect and self._stopped(effect):
                troubles.append(f"{workspace.key}: {trouble}")
            else:
                self.stdout.write(f"{workspace.key}: stopped")
        if any(troubles):
            raise CommandError("\n".join(filter(None, troubles)))

    def _come_up(self, start: Effect) -> str:
        """What is on its way up is stopped once it is there; words when it does not come."""
        if effects.is_over(self._wait(start)):
            return ""
        return f"{start.workspace.key}: it is on its way up and not there yet. Run this again when it is."

    def _stopped(self, effect: Effect) -> str:
        """Words for one that was not stopped, or not with a snapshot."""
        over = self._wait(effect)
        if not effects.is_over(over):
            return "no answer; is `make up` running? It is stopped as soon as it is."
        if not over.outcome["ok"]:
            return over.outcome["reason"]
        return f"stopped. {over.outcome['owed']}" if over.outcome.get("owed") else ""

    def _wait(self, effect: Effect) -> Effect:
        """The effect once it is over, nobody carries it out, or the patience is at its end."""
        while True:
            effect = effects.wait(effect, LOOK)
            if effects.is_over(effect) or time.monotonic() > self.deadline or _is_away(effect.runner):
                return effect


def _is_away(runner: Runner | None) -> bool:
    """Nobody carries out what this runner is asked. Of ours its lock tells, also when it is too busy for its heart."""
    if runner is not None and runner.host == settings.HANDRAIL_HOST_NAME:
        return not held(settings.HANDRAIL_HOME / "runner.lock")
    return runner is None or runner.is_silent
