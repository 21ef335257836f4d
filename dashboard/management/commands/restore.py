from pathlib import Path

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from dashboard import backup, database, restored


class Command(BaseCommand):
    help = "Put a backup back into an empty HANDRAIL_HOME (and an empty database). Nothing in it runs again by itself."
    requires_system_checks = []

    def add_arguments(self, parser):
        parser.add_argument("folder", type=Path)

    def handle(self, *, folder, **options):
        try:
            manifest = backup.restore(folder.absolute(), self._settle)
        except (backup.BackupError, database.DatabaseRefused) as error:
            raise CommandError(str(error)) from None
        self.stdout.write(
            f"Put back as of {manifest['made_at']}. What was under way then is marked unclear, approvals that were not "
            "collected are withdrawn, everybody is signed out, and tokens revoked since then are valid again: look at "
            "them. Start with `make up`."
        )

    def _settle(self, manifest):
        database.refuse_unfit()
        call_command("migrate", interactive=False, verbosity=0)
        restored.settle(manifest)
