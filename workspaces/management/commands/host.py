"""`manage.py host drain|undrain|lost NAME`: the hosts that share this database."""

from django.core.management.base import BaseCommand, CommandError

from dashboard.models import Actor
from dashboard.problems import Problem
from workspaces.services import hosts

BY = Actor.system("manage.py host")


class Command(BaseCommand):
    help = "Look after the hosts that share this database."
    requires_system_checks = []

    def add_arguments(self, parser):
        verbs = parser.add_subparsers(dest="verb", required=True)
        for verb, words in (
            ("drain", "give a host no new workspaces, and move those that are there"),
            ("undrain", "give a host new workspaces again"),
            ("lost", "bring the workspaces of a host that is gone back on others"),
        ):
            one = verbs.add_parser(verb, help=words)
            one.add_argument("name", metavar="NAME", help="its HANDRAIL_HOST_NAME")

    def handle(self, *, verb, **options):
        try:
            getattr(self, f"_{verb}")(**options)
        except Problem as refused:
            raise CommandError(refused.detail) from None

    def _drain(self, *, name, **options):
        hosts.drain(hosts.find(name))
        self.stdout.write(f"{name} gets no new workspaces.")

    def _undrain(self, *, name, **options):
        hosts.undrain(hosts.find(name))
        self.stdout.write(f"{name} gets new workspaces again.")

    def _lost(self, *, name, **options):
        gone = hosts.declare_lost(hosts.find(name), by=BY)
        self.stdout.write(f"Lost with {name}: {', '.join(each.key for each in gone) or 'no workspace'}.")
