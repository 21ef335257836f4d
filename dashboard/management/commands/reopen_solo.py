"""`manage.py reopen_solo --team T`: let the only person of a team approve critical actions alone again."""

from django.core.management.base import BaseCommand, CommandError

from dashboard.models import Actor, Team
from dashboard.people import sole_approver
from dashboard.problems import Problem


class Command(BaseCommand):
    help = "Let the only person of a team approve critical actions alone again, after a second person has left."

    def add_arguments(self, parser):
        parser.add_argument("--team", required=True)

    def handle(self, *, team, **options):
        found = Team.objects.filter(slug=team).first()
        if found is None:
            raise CommandError(f"There is no team {team!r}.")
        try:
            sole_approver.reopen(found, by=Actor.system("operator"))
        except Problem as problem:
            raise CommandError(problem.detail) from None
        self.stdout.write(f"One admin of {found} can approve critical actions alone again.")
