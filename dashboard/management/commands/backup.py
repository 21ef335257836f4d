from pathlib import Path

from django.core.management.base import BaseCommand, CommandError

from dashboard.ops import backup, scheduled_backups


class Command(BaseCommand):
    help = "Back up the installation into a new folder, also while Handrail runs. The backup contains all keys."
    requires_system_checks = []

    def add_arguments(self, parser):
        where = parser.add_mutually_exclusive_group(required=True)
        where.add_argument("folder", type=Path, nargs="?")
        scheduled = "as the plan in the Django admin says: below HANDRAIL_EXPORTS, checked, old ones deleted"
        where.add_argument("--scheduled", action="store_true", help=scheduled)

    def handle(self, *, folder, scheduled, **options):
        try:
            if scheduled:
                self.stdout.write(f"Backed up to {scheduled_backups.make()}, and checked.")
                return
            manifest = backup.make(folder.absolute())
        except backup.BackupError as error:
            raise CommandError(str(error)) from None
        total = sum(measured["bytes"] for measured in manifest["files"].values())
        self.stdout.write(f"Backed up to {folder}: {total:,} bytes, made at {manifest['made_at']}.")
