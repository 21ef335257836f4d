"""`manage.py past [PATH]`: what the policy would have asked about the calls of the last days."""

import json
import sys
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError

from approvals.past import report, report_text
from approvals.policy import PolicyError
from approvals.reports import past_calls
from dashboard.models import Team

MAX_DAYS = 366


class Command(BaseCommand):
    help = "Show what the policy would have asked about the calls that agents made on this machine."
    requires_system_checks = []

    def add_arguments(self, parser):
        parser.add_argument("path", nargs="?", default="", help="only sessions that began in this folder")
        parser.add_argument("--days", type=int, default=past_calls.DAYS)
        parser.add_argument("--team", default="main")
        parser.add_argument("--whole", action="store_true", help="list every call, with the reasons")
        parser.add_argument("--json", action="store_true", help="print the whole report as JSON")

    def handle(self, path, days, team, whole, json, **options):
        row = Team.objects.filter(slug=team).first()
        if row is None:
            raise CommandError(f"There is no team {team!r}. `make up` makes the team main at its first start.")
        if not 1 <= days <= MAX_DAYS:
            raise CommandError(f"--days is a number from 1 to {MAX_DAYS}.")
        found = of(path, row, days)
        self.stdout.write(as_json(found) if json else in_words(found, whole=whole))


def of(path: str, team, days: int = past_calls.DAYS) -> dict:
    """Return the report for a folder, or for all of the operator's sessions without one. CommandError."""
    question = past_calls.of_everything(team, days)
    if path:
        real = Path(path).expanduser().resolve()
        if not real.is_dir():
            raise CommandError(f"{real} is not a folder.")
        question = past_calls.of_folder(real, team, days)
    if question is None:
        raise CommandError("The owner of this folder is not a user of this machine.")
    try:
        return past_calls.masked(report.make(**question, progress=_progress if sys.stderr.isatty() else None))
    except PolicyError as error:
        raise CommandError(f"The policy can't be read: {error}") from None


def in_words(found: dict, *, whole: bool = False) -> str:
    return "\n".join(report_text.lines(found, whole=whole))


def as_json(found: dict) -> str:
    return json.dumps(found, indent=1)


def _progress(step: str, done: int, of: int):
    """Rewrite one line of the terminal; without counts the step alone."""
    count = f" {done:,} of {of:,}" if of and done < of else ""
    sys.stderr.write(f"\r\033[K{step}{count}" if count or not of else "\r\033[K")
    sys.stderr.flush()
