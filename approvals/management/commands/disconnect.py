"""`manage.py disconnect PATH`: undo `connect`."""

from django.core.management.base import BaseCommand, CommandError

from approvals import claude_folder
from dashboard.problems import Problem


class Command(BaseCommand):
    help = "Take Handrail's hook out of a connected folder; its snapshots stay in the trash for a while."
    requires_system_checks = []

    def add_arguments(self, parser):
        parser.add_argument("path")

    def handle(self, path, **options):
        try:
            workspace = claude_folder.disconnect(path)
        except Problem as problem:
            raise CommandError(problem.detail) from None
        self.stdout.write(f"{workspace.source['path']} is not connected any more; its snapshots are in the trash.")
