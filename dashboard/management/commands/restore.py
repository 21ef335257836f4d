from pathlib import Path

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from dashboard.ops import after_restore, backup, database


class Command(BaseCommand):
    help = "Restore a backup into an empty HANDRAIL_HOME (and an empty database). Nothing in it runs again by itself."
    requires_system_checks = []

    def add_arguments(self, parser):
        parser.add_argument("folder", type=Path)

    def handle(self, *, folder, **options):
        try:
            manifest = backup.restore(folder.absolute(), self._settle)
        except (backup.BackupError, database.DatabaseRefused) as error:
            raise CommandError(str(error)) from None
        self.stdout.write(
            f"Restored the backup of {manifest['made_at']}. Operations that were in progress have an unknown outcome, "
            "uncollected approvals are cancelled, and everybody is signed out. Tokens revoked since then are valid "
            "again: review them. Start with `make up`."
        )

    def _settle(self, manifest):
        database.refuse_unfit()
        call_command("migrate", interactive=False, verbosity=0)
        after_restore.settle(manifest)
