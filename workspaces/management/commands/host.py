"""`manage.py host list`, `host add|drain|undrain|lost|remove NAME`: the hosts that share this database."""

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.core.serializers.json import DjangoJSONEncoder

from dashboard import json_text
from dashboard.models import Actor
from dashboard.problems import Problem
from dashboard.text.visible_text import plain_size
from workspaces.host import joining, removing
from workspaces.services import hosts

MINUTES = int(joining.LASTS.total_seconds() // 60)
COLUMNS = ("HOST", "STATE", "SINCE", "PARTS", "VERSION", "UP", "MEMORY", "CPUS", "WORKSPACES", "DRIVERS")
BY = Actor.system("manage.py host")


class Command(BaseCommand):
    help = "Look after the hosts that share this database."
    requires_system_checks = []

    def add_arguments(self, parser):
        verbs = parser.add_subparsers(dest="verb", required=True)
        listed = verbs.add_parser("list", help="show each host, what runs there and how it is")
        listed.add_argument("--json", action="store_true", help="as JSON")
        for verb, words in (
            ("add", "print the line with which a new host joins, once, within 15 minutes"),
            ("drain", "give a host no new workspaces, and move those that are there"),
            ("undrain", "give a host new workspaces again"),
            ("lost", "bring the workspaces of a host that is gone back on others"),
            ("remove", "end the membership of a stopped host on which nothing is"),
        ):
            one = verbs.add_parser(verb, help=words)
            one.add_argument("name", metavar="NAME", help="its HANDRAIL_HOST_NAME")
            if verb == "drain":
                one.add_argument("--now", action="store_true", help="pause and move also what is in use")

    def handle(self, *, verb, **options):
        try:
            getattr(self, f"_{verb}")(**options)
        except Problem as refused:
            raise CommandError(refused.detail) from None

    def _list(self, *, json, **options):
        found = hosts.shown()
        if json:
            self.stdout.write(json_text.dumps(found, cls=DjangoJSONEncoder))
            return
        rows = [COLUMNS, *(_row(host) for host in found)]
        widths = [max(len(row[at]) for row in rows) for at in range(len(COLUMNS))]
        for row in rows:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            self.stdout.write("  ".join(cells).rstrip())

    def _add(self, *, name, **options):
        token = joining.add(name)
        for line in joining.advice():
            self.stdout.write(line)
        self.stdout.write(
            f"Run this on the new machine within {MINUTES} minutes, in a checkout of this version after `make setup`, "
            "with `.venv/bin` in PATH:"
        )
        self.stdout.write(f"python manage.py join {settings.HANDRAIL_PUBLIC_URL} {token}")

    def _remove(self, *, name, **options):
        removing.remove(hosts.find(name), by=BY)
        self.stdout.write(f"{name} is no host of this installation any more. Its keys are still in its HANDRAIL_HOME.")

    def _drain(self, *, name, now, **options):
        told = hosts.drain(hosts.find(name), by=BY, now=now)
        self.stdout.write(f"{name} gets no new workspaces.")
        for workspace, words in told:
            self.stdout.write(f"{workspace.key} {words}")

    def _undrain(self, *, name, **options):
        hosts.undrain(hosts.find(name), by=BY)
        self.stdout.write(f"{name} gets new workspaces again.")

    def _lost(self, *, name, **options):
        gone = hosts.declare_lost(hosts.find(name), by=BY)
        self.stdout.write(f"{name} is lost, and leads no workspace any more.")
        for workspace in gone:
            self.stdout.write(f"{workspace.key}: {workspace.reason}")


def _row(host: dict) -> tuple[str, ...]:
    """Return the cells of a host: what is up and promised, of what it may promise."""
    room, promised = host["room"], host["promised"]
    return (
        host["name"],
        host["state"],
        f"{host['since']:%Y-%m-%d %H:%M}" if host["since"] else "-",
        ",".join(host["heard"]),
        host["version"] or "-",
        _of(promised["runs"], room["runs"], str),
        _of(promised["memory_bytes"], room["memory_bytes"], plain_size),
        _of(promised["cpus"], room["cpus"], "{:g}".format),
        str(host["workspaces"]),
        ",".join(name for name, probe in sorted(host["drivers"].items()) if probe["available"]) or "-",
    )


def _of(used, most, shown) -> str:
    return f"{shown(used)} of {shown(most)}" if most else shown(used)
