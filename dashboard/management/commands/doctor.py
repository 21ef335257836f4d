import asyncio
import sys
import uuid
from datetime import timedelta

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db.models import Q

from dashboard.database import clock
from dashboard.models import Actor, Agent, Team, Token
from dashboard.ops import doctor, proxy_check
from dashboard.people.tokens import make_token, sha256
from workspaces import lifecycle
from workspaces.models import Workspace

LEFTOVER_AFTER = timedelta(hours=1)


class Command(BaseCommand):
    help = "Diagnose the installation and say how to fix it. Exit status 1 if a required part fails."
    requires_system_checks = []

    def add_arguments(self, parser):
        parser.add_argument("--url", help="test sockets, a held hook, an upload and streaming through this address")

    def handle(self, url, **options):
        findings = self._through(url) if url else doctor.examine(deep=True)
        for found in findings:
            mark = "ok  " if found.ok else "FAIL" if found.needed else "note"
            self.stdout.write(f"{mark}  {found.part}: {found.words}")
            if found.what_to_do:
                self.stdout.write(f"      {found.what_to_do}")
        if any(found.needed and not found.ok for found in findings):
            sys.exit(1)

    def _through(self, url):
        """Run the checks of `--url` as an agent of their own; delete its token and workspace afterwards."""
        team = Team.objects.order_by("created_at").first()
        if team is None:
            raise CommandError("No team exists yet. Start Handrail with `make up` first.")
        agent = Agent.objects.get_or_create(team=team, name="doctor")[0]
        token = make_token(team, agent=agent)
        hold = min(settings.HANDRAIL_HOLD_SECONDS, proxy_check.HOLD_SECONDS)
        self.stdout.write(f"This takes about {hold} seconds: a hook is held that long.")
        key = f"handrail-doctor-{uuid.uuid4().hex[:8]}"
        try:
            return asyncio.run(proxy_check.examine(url, token, hold, key))
        finally:
            Token.objects.filter(sha256=sha256(token)).delete()
            # Its own, and those left by a run that was killed; not those of a run at the same time.
            over = Q(key=key) | Q(created_at__lt=clock.now() - LEFTOVER_AFTER)
            for workspace in Workspace.objects.kept().filter(over, created_by_agent=agent):
                lifecycle.trash(workspace, by=Actor.system("doctor"))
