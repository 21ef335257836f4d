from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError

from dashboard.ops.bootstrap import StartRefused
from dashboard.ops.checks import OPERATOR
from dashboard.processes import supervisor


class Command(BaseCommand):
    help = "Run Handrail in the foreground: web, runner and queue, until SIGINT or SIGTERM."
    requires_system_checks = []  # `handle` runs them, so that a refusal is printed as a message

    def handle(self, **options):
        try:
            self.check(tags=[OPERATOR])  # the other checks would first load every page
            supervisor.up()
        except StartRefused as refused:
            raise CommandError(str(refused)) from None
        except OperationalError as error:
            raise CommandError(f"The database does not answer: {error}") from None
        except KeyboardInterrupt:
            raise CommandError("Interrupted before anything was started.") from None
