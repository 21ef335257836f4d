from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError

from dashboard import supervisor
from dashboard.checks import OPERATOR
from dashboard.prepare import Refused


class Command(BaseCommand):
    help = "Run Handrail in the foreground: web, runner and queue, until SIGINT or SIGTERM."
    requires_system_checks = []  # a check that is run below may be refused in words

    def handle(self, **options):
        try:
            self.check(tags=[OPERATOR])  # all of them would load every page first
            supervisor.up()
        except Refused as refused:
            raise CommandError(str(refused)) from None
        except OperationalError as error:
            raise CommandError(f"The database does not answer: {error}") from None
        except KeyboardInterrupt:
            raise CommandError("Interrupted before anything was started.") from None
