import time

from django.core.management.base import BaseCommand, CommandError

from dashboard.models import Actor, Team
from dashboard.problems import Problem
from workspaces import operations
from workspaces.management.commands.secret import read_value
from workspaces.services.scrub import asking
from workspaces.services.scrub.search import STEPS

POLL_S = 0.25
BY = Actor.system("manage.py scrub")


class Command(BaseCommand):
    help = (
        "Search everything that is kept for a team for a value. It is read from standard input or asked for; the "
        "places are printed."
    )
    requires_system_checks = []

    def add_arguments(self, parser):
        parser.add_argument("--team", required=True, metavar="SLUG")

    def handle(self, *, team, **options):
        found = Team.objects.filter(slug=team).first()
        if found is None:
            raise CommandError(f"There is no team {team}.")
        try:
            outcome = self._wait(asking.search(found, read_value(), by=BY))
        except Problem as refused:
            raise CommandError(refused.detail) from None
        if not outcome["ok"]:
            raise CommandError(outcome["reason"])
        self._tell(outcome)

    def _wait(self, operation) -> dict:
        step = ""
        while not operations.is_over(operation):
            if (now := operation.progress.get("step", "")) != step:
                step = now
                self.stderr.write(f"Searching {STEPS.get(step, step)} …")
            time.sleep(POLL_S)
            operation.refresh_from_db()
        return operation.outcome

    def _tell(self, outcome: dict):
        for place in outcome["places"]:
            where = f"{place['workspace']}: " if place["workspace"] else ""
            files = "".join(f"\n    {path}" for path in place["paths"])
            kept = f" (a purge leaves it: {place['why_kept']})" if place["why_kept"] else ""
            self.stdout.write(f"{place['what']}\t{where}{place['name']}{kept}{files}")
        more = outcome["total"] - len(outcome["places"])
        self.stdout.write(f"Found in {outcome['total']:,} places." + (f" {more:,} are not listed." if more else ""))
        self.stdout.write("Not searched: " + "; ".join(outcome["not_searched"]) + ".")
