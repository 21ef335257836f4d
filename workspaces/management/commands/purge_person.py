from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from dashboard.models import Actor
from dashboard.problems import Problem
from workspaces.services.scrub import people
from workspaces.services.scrub.purging import flush_database

BY = Actor.system("manage.py purge_person")


class Command(BaseCommand):
    help = (
        "Remove a person from all teams, with a receipt for each. The account's name, addresses, sign-ins, devices, "
        "views and drafts go; decisions and the log stay verifiable."
    )
    requires_system_checks = []

    def add_arguments(self, parser):
        parser.add_argument("name", help="user name of the person")
        parser.add_argument("--reason", required=True, help="for the receipts, without the name")

    def handle(self, *, name, reason, **options):
        user = get_user_model().objects.filter(username=name).first()
        if user is None:
            raise CommandError(f"No user is named {name}.")
        try:
            made = people.purge(user, reason=reason, by=BY)
        except Problem as refused:
            raise CommandError(refused.detail) from None
        self.stdout.write(f"Purged. The account is now called {people.name_after(user)}.")
        for receipt in made:
            self.stdout.write(f"{receipt.team.slug}\t{receipt.pk}\t{receipt.sha256}")
        if left := flush_database():
            self.stdout.write(f"Not emptied: {left}.")
