"""`manage.py demo`: the demonstration against the Handrail that runs here (deploy/demo/agent.py does it)."""

import subprocess
import sys

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from dashboard.models import Agent, Membership, Role, Team
from dashboard.tokens import make_token


class Command(BaseCommand):
    help = "Run a small scripted agent in a workspace made from this repository; answer its cards in the browser."
    requires_system_checks = []

    def add_arguments(self, parser):
        parser.add_argument("--unattended", action="store_true", help="a reviewer made for this answers the cards")

    def handle(self, unattended, **options):
        team = Team.objects.order_by("created_at").first()
        if team is None:
            raise CommandError("There is no team yet. Start Handrail with `make up`, then run this beside it.")
        agent = Agent.objects.get_or_create(team=team, name="demo agent")[0]
        words = [settings.HANDRAIL_PUBLIC_URL, make_token(team, agent=agent), str(settings.BASE_DIR)]
        if unattended:
            reviewer = get_user_model().objects.get_or_create(username="demo-reviewer")[0]
            Membership.objects.get_or_create(team=team, user=reviewer, defaults={"role": Role.REVIEWER})
            words += ["--decide", make_token(team, user=reviewer)]
        done = subprocess.run([sys.executable, "deploy/demo/agent.py", *words], cwd=settings.BASE_DIR, check=False)
        if done.returncode:
            raise CommandError("The demonstration did not go through.")
