import sys

import segno
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from dashboard.people.tokens import make_sign_in_link


class Command(BaseCommand):
    help = "Print a URL that signs a person in once, within the hour (and a QR code on a terminal)."
    requires_system_checks = []

    def add_arguments(self, parser):
        parser.add_argument("name", help="user name of the person")

    def handle(self, *, name, **options):
        try:
            user = get_user_model().objects.filter(username=name).first()
            if user is None:
                raise CommandError(
                    f"No user is named {name}. `create_token --team T --user {name} --role ROLE` creates one."
                )
            if not user.is_active:
                raise CommandError(f"The account of {name} is closed.")
            url = f"{settings.HANDRAIL_PUBLIC_URL}/sign-in/{make_sign_in_link(user)}/"
        except DatabaseError as error:
            raise CommandError(f"The database is not ready ({error}). `make up` sets it up.") from None
        sys.stdout.write(f"{url}\n")
        if sys.stdout.isatty():
            segno.make(url).terminal(compact=True)
