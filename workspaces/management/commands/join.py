"""`manage.py join URL TOKEN`: make this HANDRAIL_HOME a host of an installation."""

import psycopg
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from dashboard.text.setting_values import given
from workspaces.host import member_home
from workspaces.host.member_home import JoinRefused

NO_BUCKET = (
    "The snapshots of a team are kept in a folder of the host that took the first, so its workspaces stay there. With "
    "HANDRAIL_BUCKET they can be on any host (docs/many-machines.md)."
)


class Command(BaseCommand):
    help = "Make this HANDRAIL_HOME a host of the installation whose `manage.py host add NAME` printed this line."
    requires_system_checks = []

    def add_arguments(self, parser):
        parser.add_argument("url", metavar="URL", help="the address of the desk")
        parser.add_argument("token", metavar="TOKEN", help="good once, for 15 minutes")

    def handle(self, *, url, token, **options):
        try:
            shared = member_home.join(url, token)
        except JoinRefused as refused:
            raise CommandError(str(refused)) from None
        self.stdout.write(f"{settings.HANDRAIL_HOME} is {shared['HANDRAIL_HOST_NAME']} now, a host of {url}.")
        self.stdout.write(f"Its keys are in keys/, and what all hosts share in {settings.HANDRAIL_MEMBER_FILE.name}.")
        if "HANDRAIL_BUCKET" not in shared:
            self.stdout.write(NO_BUCKET)
        if words := _why_no_database(shared | given()):
            self.stderr.write(f"Warning: {words}")
        self.stdout.write("Start it with `make up`. HANDRAIL_PARTS chooses what runs here.")


def _why_no_database(values: dict) -> str:
    """Return why the database cannot be reached from here and what to do, as a message; "" if it can."""
    try:
        psycopg.connect(values["DATABASE_URL"], connect_timeout=5).close()
    except psycopg.Error as error:
        return (
            f"The database cannot be reached from here: {str(error).strip()} Set DATABASE_URL in the environment of "
            f"`make up`, or in {settings.HANDRAIL_MEMBER_FILE}, to an address that this machine reaches."
        )
    return ""
