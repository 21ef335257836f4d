from django.core.management.base import BaseCommand, CommandError

from dashboard.keys.keyring import Unreadable
from workspaces.operations.ring_elsewhere import NotGiven, OtherHosts
from workspaces.secrets import rotation


class Command(BaseCommand):
    help = "Encrypt all secrets with a new key on all hosts, and remove the old ones; Handrail may run meanwhile."
    requires_system_checks = []

    def add_arguments(self, parser):
        parser.add_argument(
            "--forget-unreadable",
            action="store_true",
            help="delete secrets that no key of the ring can decrypt, for example because the ring was lost",
        )

        parser.add_argument(
            "--without",
            action="append",
            default=[],
            metavar="HOST",
            help="a host that is away: copy keys/ring there before it starts again",
        )

    def handle(self, *, forget_unreadable, without, **options):
        try:
            if forget_unreadable:
                self.stdout.write(f"Deleted {rotation.forget_unreadable()} values that could not be read.")
            rotation.rotate(say=self.stdout.write, hand_on=OtherHosts(without).hand_on)
        except (Unreadable, NotGiven) as error:
            raise CommandError(str(error)) from None
