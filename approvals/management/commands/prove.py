"""`manage.py prove AGENT [PATH]`: show on this machine that the gate of a connected agent holds."""

import sys

from django.core.management.base import BaseCommand, CommandError

from approvals.agents import dialects
from approvals.connect.proof import verdict
from approvals.past.report_text import printable
from dashboard.problems import Problem


class Command(BaseCommand):
    help = "Show with an agent's own program that its calls are heard, denied, and stopped without Handrail."
    requires_system_checks = []

    def add_arguments(self, parser):
        parser.add_argument("agent", choices=sorted(dialects.DIALECTS))
        parser.add_argument("path", nargs="?", default="", help="the connected folder; needed if there are several")

    def handle(self, agent, path, **options):
        dialect = dialects.find(agent)
        try:
            proof = verdict.prove(dialect, path)
        except Problem as problem:
            raise CommandError(problem.detail) from None
        except KeyboardInterrupt:
            raise CommandError("Interrupted. Nothing is proven.") from None
        self.stdout.write(f"{dialect.title} {proof.version}, with its connected settings and a scripted model:")
        for line in proof.lines:
            self.stdout.write(f"  {line.name:<14}{'yes' if line.holds else 'NO':<5}{line.words}")
        if proof.problem:
            self.stdout.write(printable(proof.problem))
        if proof.holds:
            self.stdout.write(f"The gate holds ({proof.seconds:.0f} s, no key, no network).")
            return
        if proof.printed:
            self.stdout.write(f"The end of what {dialect.title} printed:")
            self.stdout.write("\n".join(f"  {printable(row)}" for row in proof.printed.splitlines()[-10:]))
        self.stderr.write(f"The gate of {dialect.title} is not proven.")
        sys.exit(1)
