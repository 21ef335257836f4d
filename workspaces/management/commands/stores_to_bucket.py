"""`manage.py stores_to_bucket`: copy the snapshot stores of this host's folders into HANDRAIL_BUCKET."""

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from dashboard.models import Team
from workspaces.host import paths, team_stores
from workspaces.models import StoreIdentity
from workspaces.store import StoreError
from workspaces.store.blobs import at
from workspaces.store.blobs.moving import copy_to_bucket
from workspaces.store.progress import Watch


class Command(BaseCommand):
    help = "Copy the snapshot stores of HANDRAIL_HOME into HANDRAIL_BUCKET while Handrail is stopped. The folders stay."
    requires_system_checks = []

    def handle(self, **options):
        if not settings.HANDRAIL_BUCKET:
            raise CommandError("Set HANDRAIL_BUCKET to the bucket that the stores are to be copied into.")
        try:
            team_stores.prove()
            for team in Team.objects.order_by("slug"):
                self._copy(team)
        except (StoreError, OSError) as error:
            raise CommandError(f"{error}.") from None

    def _copy(self, team):
        folder = paths.store_of(team.pk)
        if not folder.exists():
            return
        address = team_stores.address_of(team.pk)
        if team_stores.is_there(team.pk):
            self.stdout.write(f"{team.slug}: {address} is there already.")
            return
        head = copy_to_bucket(at(folder), team_stores.blobs_of(team.pk), Watch())
        StoreIdentity.objects.filter(team=team).update(host="")
        self.stdout.write(f"{team.slug}: {sum(head.packs.values()):,} bytes copied to {address}.")
