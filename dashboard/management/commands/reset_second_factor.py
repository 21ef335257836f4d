from allauth.mfa.models import Authenticator
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from dashboard.models import Actor
from dashboard.people.sign_ins import record_for_person


class Command(BaseCommand):
    help = "Remove the passkeys, authenticator app and recovery codes of a person who can no longer use them."

    def add_arguments(self, parser):
        parser.add_argument("name", help="user name of the person")

    def handle(self, *, name, **options):
        user = get_user_model().objects.filter(username=name).first()
        if user is None:
            raise CommandError(f"No user is named {name}.")
        with transaction.atomic():
            found = Authenticator.objects.filter(user=user)
            removed = {kind: found.filter(type=kind).count() for kind in Authenticator.Type.values}
            found.delete()
            record_for_person(user, "person.second_factor_reset", actor=Actor.system("operator"), **removed)
        self.stdout.write(
            f"Removed {removed['webauthn']} passkeys, {removed['totp']} authenticator apps and the recovery codes of "
            f"{name}. `sign_in_url {name}` prints a link to sign in and add new ones."
        )
