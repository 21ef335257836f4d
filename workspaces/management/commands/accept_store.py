"""`manage.py accept_store TEAM`: accept the snapshot store at the team's path, or an empty one, for a lost one."""

from django.core.management.base import BaseCommand, CommandError

from dashboard.models import Actor, Team
from workspaces.changes import stores
from workspaces.store import StoreError


class Command(BaseCommand):
    help = "Accept another snapshot store for a team, or an empty one, after the old one was lost for good."
    requires_system_checks = []

    def add_arguments(self, parser):
        parser.add_argument("team", help="its slug")

    def handle(self, team, **options):
        found = Team.objects.filter(slug=team).first()
        if found is None:
            raise CommandError(f"There is no team {team!r}.")
        if not stores.is_wrong(found):
            raise CommandError(f"The store of {team} is the one that its snapshots were kept in; nothing to accept.")
        try:
            store, lost = stores.accept(found, by=Actor.system("accept_store"))
        except StoreError as error:
            raise CommandError(f"{error}.") from None
        self.stdout.write(f"{store.path} is now the store of {team}. {lost} snapshots are missing from it.")
