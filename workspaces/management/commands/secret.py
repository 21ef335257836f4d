import getpass
import sys
from datetime import timedelta

from django.core.management.base import BaseCommand, CommandError

from dashboard.database import clock
from dashboard.models import Actor, Team
from dashboard.problems import Problem
from workspaces import secrets
from workspaces.models import Scope
from workspaces.secrets import origins
from workspaces.services import secret_uses

BY = Actor.system("manage.py secret")


class Command(BaseCommand):
    help = "Set, list or delete secrets of a team. A value is read from standard input or asked for; none is shown."
    requires_system_checks = []

    def add_arguments(self, parser):
        verbs = parser.add_subparsers(dest="verb", required=True)
        for verb, words in (
            ("set", "set a secret, or replace its value"),
            ("list", "list the secrets, without values"),
            ("delete", "delete a secret"),
        ):
            one = verbs.add_parser(verb, help=words)
            one.add_argument("--team", required=True, metavar="SLUG")
            if verb != "list":
                one.add_argument("name", metavar="NAME")
                one.add_argument("--for", dest="scope", choices=Scope.values, default=Scope.AGENT.value)
            if verb == "set":
                one.add_argument("--origin", default="", metavar="URL", help="where a credential for repositories goes")
                one.add_argument("--host-key", default="", metavar="LINE", help="of an ssh origin, as in known_hosts")
                one.add_argument("--days", type=int, metavar="N", help="days until it expires; without: never")

    def handle(self, *, verb, team, **options):
        found = Team.objects.filter(slug=team).first()
        if found is None:
            raise CommandError(f"There is no team {team}.")
        try:
            getattr(self, f"_{verb}")(found, **options)
        except Problem as refused:
            raise CommandError(refused.detail) from None

    def _set(self, team, *, name, scope, origin, host_key, days, **options):
        secrets.check_name(name)
        if days is not None and not 1 <= days <= 3650:
            raise CommandError("A secret expires after 1 to 3650 days.")
        expires_at = None if days is None else clock.now() + timedelta(days=days)
        how = {"origin": origins.check(scope, origin), "host_key": host_key, "expires_at": expires_at}
        secrets.save(team, name, scope, read_value(), **how, by=BY, replace=True)
        self.stdout.write(f"{name} is set. New programs get it.")

    def _list(self, team, **options):
        for one in secret_uses.of_team(team):
            ends = f"expires {one['expires_at']:%Y-%m-%d}" if one["expires_at"] else "never expires"
            used = f"last used {one['last_used_at']:%Y-%m-%d}" if one["last_used_at"] else "never used"
            where = ", ".join(one["environments"]) or "no environment"
            self.stdout.write(f"{one['name']}\t{one['scope']}\t{one['state']}\t{ends}\t{used}\t{where}")

    def _delete(self, team, *, name, scope, **options):
        secrets.delete(secret_uses.find(team, name, scope), by=BY)
        self.stdout.write(f"{name} is deleted. It is no longer given to programs.")


def read_value() -> str:
    """Return the value from standard input, without the end of its last line, or from a prompt at a terminal."""
    if sys.stdin.isatty():
        return getpass.getpass("Value: ")
    try:
        return sys.stdin.read().removesuffix("\n")
    except UnicodeDecodeError:
        raise CommandError("A value is text.") from None
