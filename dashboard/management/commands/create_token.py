import sys

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, transaction

from dashboard.models import Role
from dashboard.people.provisioning import agent_of, person_in, team_by_slug, token_for


class Command(BaseCommand):
    help = "Make a token of an agent or a person; what is missing is created. Prints the token and nothing else."
    requires_system_checks = []

    def add_arguments(self, parser):
        parser.add_argument("--team", required=True, metavar="SLUG")
        whose = parser.add_mutually_exclusive_group(required=True)
        whose.add_argument("--agent", metavar="NAME")
        whose.add_argument("--user", metavar="NAME")
        parser.add_argument("--role", choices=Role.values, help="of the person; needed when new to the team")

    def handle(self, *, team, agent, user, role, **options):
        if agent is not None and role:
            raise CommandError("--role is for people; agents have no role.")
        try:
            with transaction.atomic():
                in_team = team_by_slug(team)
                if agent is not None:
                    token = token_for(in_team, agent=agent_of(in_team, agent), by="create_token")
                else:
                    token = token_for(in_team, user=person_in(in_team, user, role), by="create_token")
        except ValidationError as refused:
            raise CommandError(" ".join(refused.messages)) from None
        except DatabaseError as error:
            raise CommandError(f"The database is not ready ({error}). `make up` sets it up.") from None
        sys.stdout.write(f"{token}\n")
