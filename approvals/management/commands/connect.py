"""`manage.py connect AGENT PATH`: gate a coding agent in an existing folder."""

import shlex
import sys

from django.core.management.base import BaseCommand, CommandError

from approvals.agents import dialects
from approvals.agents.hooks import MACHINE_HOOKS
from approvals.connect import folder_hooks, machine
from approvals.management.commands import past
from approvals.past.report_text import printable
from dashboard.models import Team
from dashboard.problems import Problem
from dashboard.text import own_commands


class Command(BaseCommand):
    help = "Make an existing folder a workspace whose agent asks before what cannot be undone."
    requires_system_checks = []

    def add_arguments(self, parser):
        parser.add_argument("agent", choices=sorted(dialects.DIALECTS))
        parser.add_argument("path", nargs="?", default="")
        titles = " or ".join(dialects.DIALECTS[name].title for name in MACHINE_HOOKS)
        of_machine = f"gate every {titles} on this machine, for all users; needs root"
        parser.add_argument("--system", action="store_true", help=of_machine)
        parser.add_argument("--team", default="main")
        parser.add_argument("--key", default="", help="the workspace's name; by default from the folder's")
        parser.add_argument(
            "--accept-repository-rules",
            action="store_true",
            help="import the allow rules that the repository brings along, without a question for each",
        )
        parser.add_argument(
            "--yes", action="store_true", help="connect without showing first what the policy would have asked"
        )

    def handle(self, agent, path, system, team, key, accept_repository_rules, yes, **options):
        if not path and not system:
            raise CommandError("Name a folder, or --system for the whole machine.")
        if system and agent not in MACHINE_HOOKS:
            raise CommandError(f"--system is for {', '.join(MACHINE_HOOKS)}.")
        row = Team.objects.filter(slug=team).first()
        if row is None:
            raise CommandError(f"There is no team {team!r}. `make up` makes the team main at its first start.")
        if path:
            if sys.stdin.isatty() and not yes and not self._wants(path, row):
                raise CommandError("Nothing is connected.")
            self._connect_folder(dialects.find(agent), path, row, key, accept_repository_rules)
        if system:
            self._connect_machine(dialects.find(agent), row)

    def _connect_machine(self, dialect, team):
        try:
            notes = machine.connect(dialect, team=team)
        except Problem as problem:
            raise CommandError(problem.detail) from None
        for note in notes:
            self.stdout.write(note)
        self.stdout.write(
            f"{MACHINE_HOOKS[dialect.name].settings_file} gates every {dialect.title} on this machine, whatever its "
            "folder or user sets. Without a running Handrail none of them runs a tool. Undo it with "
            f"{own_commands.manage('disconnect --system')}"
        )

    def _connect_folder(self, dialect, path, team, key, accept_repository_rules):
        choose = list if accept_repository_rules else self._ask if sys.stdin.isatty() else self._decline
        try:
            connected = folder_hooks.connect(dialect, path, team=team, key=key, choose=choose)
        except Problem as problem:
            raise CommandError(problem.detail) from None
        except OSError as error:
            raise CommandError(f"{error.filename or path}: {error.strerror or error}. Nothing is connected.") from None
        except KeyboardInterrupt:
            raise CommandError("Interrupted. Nothing is connected.") from None
        for note in connected.notes:
            self.stdout.write(printable(note))
        workspace = connected.workspace
        self.stdout.write(
            f"{workspace.own_folder} is connected as {workspace.key}. Handrail asks for approval and takes "
            "snapshots (including .env). It is not a sandbox: an agent running as the same user could get around it, "
            "or sign in to Handrail itself."
        )
        self.stdout.write(
            f"Prove it, with {dialect.title} itself and no key:\n  "
            f"{own_commands.manage(f'prove {dialect.name} {shlex.quote(workspace.own_folder)}')}"
        )

    def _wants(self, path, team) -> bool:
        """Show what the policy would have asked in this folder, and ask whether to switch it on."""
        self.stdout.write(past.in_words(past.of(path, team)))
        return self._answer("Connect this folder? [y]es / [n]o: ", "yn") == "y"

    def _ask(self, rules: list[str]) -> list[str]:
        self._show(rules)
        answer = self._answer(f"Import them? [y]es, all {len(rules)} / [n]o, none / [e]ach: ", "yne")
        if answer == "e":
            return [rule for rule in rules if self._answer(f"Import {printable(rule)}? [y/n]: ", "yn") == "y"]
        return rules if answer == "y" else []

    def _decline(self, rules: list[str]) -> list[str]:
        self._show(rules)
        self.stdout.write("They are not imported. To import them: connect again with --accept-repository-rules.")
        return []

    def _show(self, rules: list[str]):
        self.stdout.write("This repository brings rules that would let calls run without asking:")
        for rule in rules:
            self.stdout.write(f"  {printable(rule)}")

    def _answer(self, question: str, letters: str) -> str:
        while True:
            try:
                given = input(question).strip().lower()[:1]
            except EOFError:
                return "n"
            if given and given in letters:
                return given
