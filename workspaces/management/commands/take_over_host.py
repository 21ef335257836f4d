"""`manage.py take_over_host HOST`: let another installation be the runner of a host whose HANDRAIL_HOME is lost."""

from django.core.management.base import BaseCommand, CommandError

from dashboard.models import Actor
from workspaces.host import identity
from workspaces.lifecycle.lost_hosts import give_up
from workspaces.models import Runner, StoreIdentity


class Command(BaseCommand):
    help = "Give a host's name to the next Handrail that starts under it. The old one must be lost for good."
    requires_system_checks = []

    def add_arguments(self, parser):
        parser.add_argument("host", help="its HANDRAIL_HOST_NAME")
        parser.add_argument(
            "--lost", action="store_true", help="also fail its workspaces and end what waits for it: its files are gone"
        )

    def handle(self, host, lost, **options):
        row = Runner.objects.filter(host=host).first()
        if row is None:
            raise CommandError(f"No runner {host!r} has used this database.")
        if row.is_alive:
            raise CommandError(f"The runner {host} is running (home {row.home}, process {row.pid}). Stop it first.")
        identity.take_over(host)
        if lost:
            self._give_up(row)
        self.stdout.write(f"The next Handrail that starts as {host} is its runner. Nothing was deleted.")

    def _give_up(self, row: Runner):
        gone = give_up(row, by=Actor.system("manage.py take_over_host"))
        self.stdout.write(
            f"Failed as lost with {row.host}: {', '.join(place.key for place in gone) or 'no workspace'}."
        )
        stores = StoreIdentity.objects.filter(host=row.host).order_by("team__slug").values_list("team__slug", flat=True)
        for slug in stores:
            self.stdout.write(
                f"The snapshots of {slug} were there too. Put a backup of them in this host's HANDRAIL_HOME/stores, or "
                f"go on without them: `manage.py accept_store {slug}`."
            )
