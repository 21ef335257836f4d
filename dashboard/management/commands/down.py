from django.core.management.base import BaseCommand, CommandError

from dashboard.models import Actor
from dashboard.problems import Problem
from workspaces import effects, lifecycle
from workspaces.models import State, Workspace

PATIENCE = 300.0  # seconds for all of them together


class Command(BaseCommand):
    help = "Stop every workspace that is up, each with a snapshot. `make up` must be running; it goes on running."
    requires_system_checks = []

    def handle(self, **options):
        asked, refused = [], []
        for workspace in Workspace.objects.kept().filter(state=State.READY).order_by("key"):
            try:
                effect = lifecycle.stop(workspace, by=Actor.system("down"))
            except Problem as problem:
                refused.append(f"{workspace.key}: {problem.detail}")
            else:
                if effect:
                    asked.append((workspace, effect))
        for workspace, effect in asked:
            over = effects.wait(effect, PATIENCE / len(asked))
            outcome = over.outcome or {}
            if outcome.get("ok"):
                self.stdout.write(f"{workspace.key}: stopped")
            else:
                reason = outcome.get("reason") or "no answer yet; is `make up` running? It is stopped as soon as it is."
                refused.append(f"{workspace.key}: {reason}")
        if refused:
            raise CommandError("\n".join(refused))
