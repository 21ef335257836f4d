"""`manage.py connect claude-code PATH`: gate Claude Code in an existing folder."""

from django.core.management.base import BaseCommand, CommandError

from approvals import claude_folder
from dashboard.models import Team
from dashboard.problems import Problem


class Command(BaseCommand):
    help = "Make an existing folder a workspace whose Claude Code asks before what cannot be undone."
    requires_system_checks = []

    def add_arguments(self, parser):
        parser.add_argument("agent", choices=["claude-code"])
        parser.add_argument("path")
        parser.add_argument("--team", default="main")
        parser.add_argument("--key", default="", help="the workspace's name; by default from the folder's")

    def handle(self, agent, path, team, key, **options):
        row = Team.objects.filter(slug=team).first()
        if row is None:
            raise CommandError(f"There is no team {team!r}. `make up` makes the team main at its first start.")
        try:
            connected = claude_folder.connect(path, team=row, key=key)
        except Problem as problem:
            raise CommandError(problem.detail) from None
        for note in connected.notes:
            self.stdout.write(note)
        workspace = connected.workspace
        self.stdout.write(
            f"{workspace.source['path']} is connected as {workspace.key}. Handrail asks and keeps snapshots (of .env "
            "files too); it holds nothing back, and an agent that runs as Handrail's own user could sign itself in."
        )
