from pathlib import Path

from django.core.management.base import BaseCommand, CommandError

from dashboard.ops import backup


class Command(BaseCommand):
    help = "Back up the installation into a new folder, also while Handrail runs. The backup contains all keys."
    requires_system_checks = []

    def add_arguments(self, parser):
        parser.add_argument("folder", type=Path)

    def handle(self, *, folder, **options):
        try:
            manifest = backup.make(folder.absolute())
        except backup.BackupError as error:
            raise CommandError(str(error)) from None
        total = sum(measured["bytes"] for measured in manifest["files"].values())
        self.stdout.write(f"Backed up to {folder}: {total:,} bytes, made at {manifest['made_at']}.")
