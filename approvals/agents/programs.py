"""The table of programs: how each agent's is started, under the contract in `program.py`, and which are installable."""

from approvals.agents import dialects, parts
from approvals.agents.program import Launcher, Scripted
from workspaces.provisioning.agent_programs import Program

PARTS = parts("program")
SCRIPTED: dict[str, Scripted] = {agent: part.SCRIPTED for agent, part in PARTS.items()}
LAUNCHERS: dict[str, Launcher] = {agent: part.LAUNCHER for agent, part in PARTS.items() if hasattr(part, "LAUNCHER")}


def installable() -> dict[str, Program]:
    """Return the programs that an environment can name."""
    found = {}
    for agent, launcher in LAUNCHERS.items():
        dialect = dialects.DIALECTS[agent]
        found[agent] = Program(
            agent,
            dialect.title,
            launcher.package,
            launcher.binary,
            dialect.program,
            launcher.version,
            launcher.provider,
            launcher.models,
            launcher.key_form,
        )
    return found
