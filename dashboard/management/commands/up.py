from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError

from dashboard.ops.bootstrap import StartRefused
from dashboard.processes import supervisor


class Command(BaseCommand):
    help = "Run Handrail in the foreground: web, runner and queue, until SIGINT or SIGTERM."
    requires_system_checks = []  # they would first load every page

    def handle(self, **options):
        try:
            supervisor.up()
        except StartRefused as refused:
            raise CommandError(str(refused)) from None
        except OperationalError as error:
            raise CommandError(f"The database does not answer: {error}") from None
        except KeyboardInterrupt:
            raise CommandError("Interrupted before anything was started.") from None
