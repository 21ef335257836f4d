"""The turns of a scripted model, and the call of whichever shell an agent offers."""

import itertools

from approvals.agents.wires import TOOL

_ids = itertools.count(1)
SHELL = "shell"  # a block that runs a command with the shell of whichever agent asks
# The arguments of each agent's shell, by the tool's name; {} stands for the command.
SHELLS = {
    "Bash": {"command": "{}"},
    "bash": {"command": "{}", "description": "Run it"},
    "run_shell_command": {"command": "{}", "description": "Run it", "is_background": False},
    "exec_command": {"cmd": "{}"},
    "shell_command": {"command": "{}"},
}


def say(text: str) -> dict:
    return {"type": "text", "text": text}


def call(tool: str, **arguments) -> dict:
    return {"type": TOOL, "id": f"toolu_test{next(_ids):06d}", "name": tool, "input": arguments}


def run(command: str) -> dict:
    """Return a block that runs the command with the agent's own shell."""
    return {"type": SHELL, "command": command}


def with_shell(block: dict, offered: list[str]) -> dict:
    """Return the call of the agent's own shell."""
    for name, arguments in SHELLS.items():
        if name in offered:
            given = {key: block["command"] if value == "{}" else value for key, value in arguments.items()}
            return call(name, **given)
    return say(f"None of these tools is a shell: {', '.join(offered)}.")
