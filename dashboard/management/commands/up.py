from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError

from dashboard import supervisor
from dashboard.prepare import Refused


class Command(BaseCommand):
    help = "Run Handrail in the foreground: web, runner and queue, until SIGINT or SIGTERM."
    requires_system_checks = []  # run below: they ask the database, which may be away

    def handle(self, **options):
        try:
            self.check()
            supervisor.up()
        except Refused as refused:
            raise CommandError(str(refused)) from None
        except OperationalError as error:
            raise CommandError(f"The database does not answer: {error}") from None
        except KeyboardInterrupt:
            raise CommandError("Interrupted before anything was started.") from None
