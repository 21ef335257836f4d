"""`manage.py take_over_host HOST`: let another installation be the runner of a host whose HANDRAIL_HOME is lost."""

from django.core.management.base import BaseCommand, CommandError

from workspaces import identity
from workspaces.models import Runner


class Command(BaseCommand):
    help = (
        "Let the next Handrail that starts under this host's name be its runner, after the old one was lost for good."
    )
    requires_system_checks = []

    def add_arguments(self, parser):
        parser.add_argument("host", help="its HANDRAIL_HOST_NAME")

    def handle(self, host, **options):
        row = Runner.objects.filter(host=host).first()
        if row is None:
            raise CommandError(f"No runner {host!r} has used this database.")
        if row.is_alive:
            raise CommandError(f"The runner {host} is running (home {row.home}, process {row.pid}). Stop it first.")
        identity.take_over(host)
        self.stdout.write(f"The next Handrail that starts as {host} is its runner. Nothing was deleted.")
