from django.core.management.base import BaseCommand, CommandError

from approvals.step_up import assertions
from dashboard.batches import in_batches


class Command(BaseCommand):
    help = "Check again each approval that a passkey confirmed: its signature, what it was for, and the log."

    def add_arguments(self, parser):
        parser.add_argument("--team", help="only of the team with this slug")

    def handle(self, *, team, **options):
        found = assertions.kept_ones()
        found = found.filter(action__team__slug=team) if team else found
        wrong = 0
        for decision in in_batches(found):
            if faults := assertions.faults(decision):
                wrong += 1
                where = f"{decision.action.team.slug} {decision.action}, {decision.user} at {decision.at.isoformat()}"
                self.stdout.write(f"{where}: {' '.join(faults)}")
        if wrong:
            raise CommandError(f"{wrong} of {found.count()} approvals are not proven by what was kept.")
        self.stdout.write(f"{found.count()} approvals with passkeys: each signature is right, and each is in the log.")
