"""`manage.py store_key TEAM`: encrypt the snapshots of a team from now on, with a new key."""

import os

from django.core.management.base import BaseCommand, CommandError

from dashboard.models import Actor, Team
from workspaces.host import store_keys
from workspaces.store import StoreError
from workspaces.store.sealing import written


class Command(BaseCommand):
    help = "Show whether a team's snapshots are encrypted, make a (new) key, or write its keys to a file."
    requires_system_checks = []

    def add_arguments(self, parser):
        parser.add_argument("team", help="its slug")
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--new", action="store_true", help="encrypt with a new key from now on")
        what.add_argument("--write", metavar="FILE", help="write the keys to a new file, for workspaces.store --keys")

    def handle(self, team, *, new, write, **options):
        found = Team.objects.filter(slug=team).first()
        if found is None:
            raise CommandError(f"There is no team {team!r}.")
        try:
            if new:
                store_keys.add(found, by=Actor.system("manage.py store_key"))
            keys = store_keys.keys_of(found.pk)
            if write:
                self._write(keys, write)
        except (StoreError, OSError) as error:
            raise CommandError(f"{error}.") from None
        if not keys:
            self.stdout.write(
                f"The snapshots of {team} are not encrypted. `manage.py store_key {team} --new` begins it."
            )
            return
        older = f", and {len(keys) - 1} older ones still read what they wrote" if len(keys) > 1 else ""
        self.stdout.write(f"New snapshots of {team} are encrypted with the key {keys[0].id.hex()}{older}.")

    def _write(self, keys, path: str):
        if not keys:
            raise CommandError("There is no key to write.")
        with open(path, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(written(keys))
