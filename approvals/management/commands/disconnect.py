"""`manage.py disconnect PATH`: undo `connect`."""

from django.core.management.base import BaseCommand, CommandError

from approvals.connect import folder_hooks, machine
from dashboard.problems import Problem


class Command(BaseCommand):
    help = "Take Handrail's hook out of a connected folder; its snapshots stay in the trash for a while."
    requires_system_checks = []

    def add_arguments(self, parser):
        parser.add_argument("path", nargs="?", default="")
        parser.add_argument("--system", action="store_true", help="undo `connect --system`; needs root")

    def handle(self, path, system, **options):
        if not path and not system:
            raise CommandError("Name a folder, or --system.")
        try:
            if system:
                for file in machine.disconnect():
                    self.stdout.write(f"{file} has no hook of Handrail any more; its token is revoked.")
            if not path:
                return
            workspace = folder_hooks.disconnect(path)
        except Problem as problem:
            raise CommandError(problem.detail) from None
        self.stdout.write(f"{workspace.own_folder} is not connected any more; its snapshots are in the trash.")
