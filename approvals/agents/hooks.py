"""The tables of hooks that do not go into the home of an agent's user, under the contracts in `folder_hook.py`."""

from approvals.agents import parts
from approvals.agents.folder_hook import FolderHook, MachineHook

FOLDER_HOOKS: dict[str, FolderHook] = {agent: part.HOOK for agent, part in parts("folder_hook").items()}
MACHINE_HOOKS: dict[str, MachineHook] = {agent: part.HOOK for agent, part in parts("machine_hook").items()}


def is_machine_gated(agent: str) -> bool:
    """Return whether a hook gates every session of the agent on this machine."""
    hook = MACHINE_HOOKS.get(agent)
    return hook is not None and hook.is_put_in()
