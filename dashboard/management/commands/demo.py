"""`manage.py demo`: run the demonstration (deploy/demo) against the Handrail on this machine; from a checkout only."""

import os
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from dashboard.database import clock
from dashboard.models import Actor, Agent, Membership, Role, Team, Token
from dashboard.people.provisioning import revoke, token_for
from dashboard.people.tokens import sha256

BY = "manage.py demo"
TOKEN_LIFETIME = timedelta(hours=8)  # in case the demonstration is killed
STORY = settings.BASE_DIR / "deploy" / "demo"  # no wheel has it


class Command(BaseCommand):
    help = "Run a scripted agent in a workspace of this repository; you answer its cards in the browser."
    requires_system_checks = []

    def add_arguments(self, parser):
        parser.add_argument("--unattended", action="store_true", help="a reviewer made for this answers the cards")
        parser.add_argument(
            "--fortnight",
            action="store_true",
            help="make a team `demo` with a fortnight of data instead: six workspaces, four agents, four people",
        )
        parser.add_argument(
            "--beside-real-data", action="store_true", help="with --fortnight: also on a desk that is in use"
        )

    def handle(self, unattended, fortnight, beside_real_data, **options):
        if not STORY.is_dir():
            raise CommandError("An installed Handrail has no demonstration. Run this in a checkout of its repository.")
        if fortnight:
            return self._fortnight(beside_real_data)
        return self._demonstrate(unattended)

    def _fortnight(self, beside_real_data: bool):
        """Make the fortnight in a team of its own, once."""
        from deploy.demo.fortnight import telling  # no wheel has it

        if telling.is_told():
            raise CommandError("The fortnight is there already: its team is `demo`.")
        if telling.has_other_data() and not beside_real_data:
            raise CommandError(
                "This desk has workspaces or actions of its own. The fortnight would stand beside them in a team "
                "`demo`; pass --beside-real-data if you want that. Nothing was changed."
            )
        made = telling.Telling(clock.now())
        made.tell(self.stdout.write)
        self.stdout.write("Done. Open the Desk: everybody who was in a team is in the team `demo` too.")

    def _demonstrate(self, unattended: bool):
        team = Team.objects.order_by("created_at").first()
        if team is None:
            raise CommandError("No team exists yet. Start Handrail with `make up`, then run this beside it.")
        agent = Agent.objects.get_or_create(team=team, name="demo agent")[0]
        tokens = {"HANDRAIL_TOKEN": self._token(team, agent=agent)}
        if unattended:
            reviewer = get_user_model().objects.get_or_create(username="demo-reviewer")[0]
            Membership.objects.get_or_create(team=team, user=reviewer, defaults={"role": Role.REVIEWER})
            tokens["HANDRAIL_REVIEWER_TOKEN"] = self._token(team, user=reviewer)
        try:
            status = self._run(tokens)
        finally:
            mine = Token.objects.filter(sha256__in=[sha256(plain) for plain in tokens.values()])
            revoke(mine, by=Actor.system(BY))
        if status:
            raise CommandError("The demo failed.")

    def _token(self, team, **of) -> str:
        return token_for(team, by=BY, expires_at=clock.now() + TOKEN_LIFETIME, **of)

    def _run(self, tokens: dict) -> int:
        words = [sys.executable, str(STORY / "agent.py"), settings.HANDRAIL_PUBLIC_URL, str(settings.BASE_DIR)]
        # Pass the tokens in the environment: everybody on the machine can read a command line.
        process = subprocess.Popen(words, cwd=settings.BASE_DIR, env=os.environ | tokens)
        while True:
            with suppress(KeyboardInterrupt):  # Ctrl-C reaches the agent too, which stops what it started
                return process.wait()
