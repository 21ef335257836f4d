"""`manage.py move KEY --to HOST [--environment E]`: move a workspace to another host, or under another environment."""

import time

from django.core.management.base import BaseCommand, CommandError

from dashboard.database import clock
from dashboard.models import Actor
from dashboard.problems import Problem
from workspaces.models import Operation, Phase, Workspace
from workspaces.services import hosts
from workspaces.services.hosts import moving

BY = Actor.system("manage.py move")
POLL_S = 0.2


class Command(BaseCommand):
    help = (
        "Move a workspace to another host, or under another environment. Its programs end, and every byte is compared."
    )
    requires_system_checks = []

    def add_arguments(self, parser):
        parser.add_argument("key", metavar="KEY", help="the workspace's key")
        parser.add_argument("--to", metavar="HOST", help="the host that it goes to; without: it stays on its own")
        parser.add_argument("--environment", metavar="NAME", help="the environment that it goes under")
        parser.add_argument("--team", metavar="SLUG", help="its team, where several have this key")
        parser.add_argument("--no-wait", action="store_true", help="do not wait until it has arrived")

    def handle(self, *, key, to, environment, team, no_wait, **options):
        workspace = _find(key, team)
        began = clock.now()
        try:
            under = moving.environment_named(workspace, environment) if environment else None
            moving.move(workspace, hosts.find(to) if to else None, under, by=BY)
        except Problem as refused:
            raise CommandError(refused.detail) from None
        if no_wait:
            self.stdout.write(f"{key} moves.")
            return
        self._wait(workspace, began)

    def _wait(self, workspace, began):
        """Wait for the steps of the move; raise CommandError with the reason of one that failed."""
        steps = Operation.objects.filter(workspace=workspace, kind__in=("move", "arrive"), created_at__gte=began)
        while steps.filter(phase__in=[Phase.DUE, Phase.CLAIMED, Phase.STARTED]).exists():
            time.sleep(POLL_S)
        for step in steps:
            if not step.outcome["ok"]:
                raise CommandError(step.outcome["reason"])
        workspace = Workspace.objects.select_related("runner", "environment").get(pk=workspace.pk)
        proof = workspace.proof
        told = f", {proof['differ']} of {proof['entries']:,} entries differ" if steps else ""
        self.stdout.write(f"{workspace.key} is on {workspace.runner.host} under {workspace.environment}{told}.")


def _find(key: str, team: str | None) -> Workspace:
    found = Workspace.objects.kept().filter(key=key).select_related("team", "environment", "runner", "head")
    found = list(found.filter(team__slug=team) if team else found)
    if len(found) != 1:
        what = "There is no workspace" if not found else "Several teams have a workspace"
        raise CommandError(f"{what} {key}{'' if not found else '; name one with --team'}.")
    return found[0]
