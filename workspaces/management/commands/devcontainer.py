import json
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError

from dashboard.models import Actor, Team
from dashboard.problems import Problem
from workspaces.models import Environment
from workspaces.provisioning import devcontainer
from workspaces.services import environments


class Command(BaseCommand):
    help = "Show what a devcontainer.json of this host becomes, and save it as an environment with --save."

    def add_arguments(self, parser):
        parser.add_argument("folder", type=Path, help="a repository, or its devcontainer.json")
        parser.add_argument("--team", default="main", metavar="SLUG")
        parser.add_argument("--save", metavar="NAME", help="as the next version of this environment")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *, folder, team, save, **options):
        try:
            file = folder if folder.is_file() else devcontainer.find(folder)
            reading = devcontainer.read(file.read_text(errors="replace"), file)
            if options["json"]:
                self.stdout.write(json.dumps(reading.as_json(), indent=2))
            else:
                self._print(reading)
            if save:
                self._save(reading, team, save)
        except OSError as error:
            raise CommandError(f"{folder} can't be read: {error.strerror}") from None
        except Problem as problem:
            raise CommandError(problem.detail) from None

    def _print(self, reading):
        named = (("Used", reading.taken), ("Without effect", reading.without_effect), ("Refused", reading.refused))
        for title, rows in named:
            if rows:
                self.stdout.write(f"{title}:")
            for name, sentence in rows:
                self.stdout.write(f"  {name}: {sentence}")

    def _save(self, reading, slug, name):
        team = Team.objects.filter(slug=slug).first()
        if team is None:
            raise CommandError(f"There is no team {slug}.")
        base = Environment.objects.filter(team=team, name=name).order_by("-version").first()
        made = environments.save(team, name, reading.fields, base=base, by=Actor.system("manage.py devcontainer"))
        self.stdout.write(f"Saved version {made.version} of {made.name}.")
