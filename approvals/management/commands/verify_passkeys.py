import json
import os
from contextlib import nullcontext

from django.core.management.base import BaseCommand, CommandError

from approvals.actions.step_up import assertions
from dashboard.database.batches import in_batches


class Command(BaseCommand):
    help = "Check again each approval that a passkey confirmed: its signature, what it was for, and the log."

    def add_arguments(self, parser):
        parser.add_argument("--team", help="only of the team with this slug")
        parser.add_argument("--export", metavar="FILE", help="a new file for `python -m handrail_verify passkeys`")

    def handle(self, *, team, export, **options):
        found = assertions.kept_ones()
        found = found.filter(action__team__slug=team) if team else found
        wrong = 0
        with _created(export) if export else nullcontext() as file:
            for decision in in_batches(found):
                record = assertions.record_of(decision)
                if faults := assertions.faults(decision):
                    wrong += 1
                    where = f"{record['team']} {record['action']}, {record['person']} at {record['at']}"
                    self.stdout.write(f"{where}: {' '.join(faults)}")
                if file:
                    file.write(json.dumps(record) + "\n")
        if wrong:
            raise CommandError(f"{wrong} of {found.count()} approvals are not proven by what was kept.")
        self.stdout.write(f"{found.count()} approvals with passkeys: each signature is right, and each is in the log.")


def _created(name: str):
    """Open a new file that only its owner reads: it holds the calls that were approved."""
    try:
        return open(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w")
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror}") from None
