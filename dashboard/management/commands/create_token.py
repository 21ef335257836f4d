import sys

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, transaction

from dashboard.models import Role
from dashboard.people.provisioning import agent_of, person_in, team_by_slug, token_for
from dashboard.people.token_list import expiry_in
from dashboard.problems import Problem


class Command(BaseCommand):
    help = "Make a token of an agent or a person; what is missing is created. Prints the token and nothing else."
    requires_system_checks = []

    def add_arguments(self, parser):
        parser.add_argument("--team", required=True, metavar="SLUG")
        whose = parser.add_mutually_exclusive_group(required=True)
        whose.add_argument("--agent", metavar="NAME")
        whose.add_argument("--user", metavar="NAME")
        parser.add_argument("--role", choices=Role.values, help="of the person; needed when new to the team")

        parser.add_argument("--days", type=int, metavar="N", help="days that it is valid; without: until it is revoked")

    def handle(self, *, team, agent, user, role, days, **options):
        if agent is not None and role:
            raise CommandError("--role is for people; agents have no role.")
        try:
            with transaction.atomic():
                expires_at = expiry_in(days or 0)
                in_team = team_by_slug(team)
                if agent is not None:
                    whose = {"agent": agent_of(in_team, agent)}
                else:
                    whose = {"user": person_in(in_team, user, role)}
                token = token_for(in_team, by="create_token", expires_at=expires_at, **whose)
        except Problem as refused:
            raise CommandError(refused.detail) from None
        except ValidationError as refused:
            raise CommandError(" ".join(refused.messages)) from None
        except DatabaseError as error:
            raise CommandError(f"The database is not ready ({error}). `make up` sets it up.") from None
        sys.stdout.write(f"{token}\n")
