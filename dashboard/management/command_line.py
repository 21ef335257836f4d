"""The command line of `manage.py`: Django's, with an overview of Handrail's own, and one line for a wrong setting."""

import sys
from pathlib import Path

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import ManagementUtility, get_commands, load_command_class

# Handrail's commands, in the order in which a person needs them. A test compares them with those that are there.
GROUPS = {
    "Start": ("up", "demo", "sign_in_url", "down", "prepare"),
    "Agents": ("connect", "prove", "past", "disconnect", "agents", "create_token"),
    "Workspaces": ("push", "devcontainer", "secret", "move"),
    "Looking after it": ("doctor", "backup", "restore", "rotate_secrets", "accept_store", "store_key"),
    "Several hosts": ("host", "join", "stores_to_bucket", "take_over_host"),
    "People": ("reset_second_factor", "reopen_solo", "purge_person", "scrub"),
    "Checking": ("verify_passkeys",),
    "Parts of `up`, alone": ("runner", "queue", "qcluster"),
}
WIDTH = 100


class CommandLine(ManagementUtility):
    """Django's, whose `help` names Handrail's own commands first, each with what it does."""

    def main_help_text(self, commands_only=False):
        if commands_only:
            return super().main_help_text(commands_only=True)
        commands, own = get_commands(), {name for names in GROUPS.values() for name in names}
        lines = [f"Handrail's commands. `{Path(self.prog_name).name} help COMMAND` says how each is used.", ""]
        for group, names in GROUPS.items():
            lines += [group, *(f"  {name:<20} {summary(commands, name)}" for name in names), ""]
        lines.append(f"Of Django and others: {', '.join(sorted(set(commands) - own))}")
        return "\n".join(lines)


def summary(commands: dict, name: str) -> str:
    """Return the first sentence of a command's help."""
    return load_command_class(commands[name], name).help.partition(". ")[0].removesuffix(".")


def execute(words: list[str]) -> None:
    """Run a command. A wrong setting ends the program with its sentence and status 1."""
    try:
        _ = settings.INSTALLED_APPS  # the first look reads all settings
    except ImproperlyConfigured as wrong:
        sys.exit(str(wrong))
    CommandLine(words).execute()
