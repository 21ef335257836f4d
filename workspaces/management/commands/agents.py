from django.core.management.base import BaseCommand, CommandError

from dashboard.problems import Problem
from workspaces.provisioning import agent_programs


class Command(BaseCommand):
    help = "Install, list and remove the programs of agents that Handrail starts in workspaces"

    def add_arguments(self, parser):
        verbs = parser.add_subparsers(dest="verb", required=True)
        for verb, words in (("install", "bring a program from npm"), ("remove", "delete an installed program")):
            one = verbs.add_parser(verb, help=words)
            one.add_argument("program", help="NAME@VERSION, such as codex@0.169.0")
        verbs.add_parser("list", help="list what is installed on this host")

    def handle(self, *args, verb, program="", **options):
        try:
            if verb == "install":
                self.stdout.write(f"{program} is in {agent_programs.install(program)}")
            elif verb == "remove":
                agent_programs.remove(program)
                self.stdout.write(f"{program} is removed.")
            else:
                for named in agent_programs.installed():
                    self.stdout.write(named)
        except Problem as problem:
            raise CommandError(problem.detail) from None
