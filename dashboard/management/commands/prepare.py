from django.core.management.base import BaseCommand, CommandError

from dashboard.ops import bootstrap
from workspaces.drivers.base import DriverError
from workspaces.drivers.kubernetes import keys_secret
from workspaces.host import same_keys


class Command(BaseCommand):
    help = (
        "Migrate the database and make the keys, and start nothing. With --keys-secret, in a cluster: the keys are "
        "those of this Secret, which is made with new ones if it is missing."
    )
    requires_system_checks = []

    def add_arguments(self, parser):
        parser.add_argument("--keys-secret", metavar="NAME", default="", help="a Secret of the pod's own namespace")

    def handle(self, **options):
        try:
            self._prepare(options["keys_secret"])
        except (bootstrap.StartRefused, DriverError, ValueError) as error:
            raise CommandError(str(error)) from None

    def _prepare(self, name: str):
        kept = keys_secret.read(name) if name else None
        if kept is not None:
            same_keys.write(kept)
        bootstrap.runtime_folder()
        bootstrap.prepare(self.stdout.write)
        if name and kept is None:
            keys_secret.make(name, same_keys.read())
            self.stdout.write(f"The keys are in the Secret {name}. Keep a copy of it.")
