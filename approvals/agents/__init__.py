"""The agents that Handrail understands: each has a folder here and one line in AGENTS; a new one changes no other file.

A folder has `dialect.py` and `protected.py`, and of the other parts those that its agent has. Each names what it offers
under the same name:

| part | offers |
| --- | --- |
| `dialect` | DIALECT: how its hook is read and answered (`dialect.py`) |
| `protected` | STARTUP_FILES, SECRETS and PROGRAMS: what is protected of it; it needs no import |
| `program` | SCRIPTED: how its program is started on a model on loopback, if it can be; LAUNCHER: in workspaces |
| `settings` | `system_files(workspace)`: the files below /etc that gate it there; `settings_to_copy()`, for *Connect* |
| `folder_hook` | HOOK: how its hook is put into a connected folder, if not into its user's home (`folder_hook.py`) |
| `machine_hook` | HOOK: how `connect --system` gates it for all users of a machine (`folder_hook.py`) |
| `transcript` | the reader of the sessions that it keeps (`transcripts.py`); it needs no Django |
| `trust` | `make_true`, `forget` and `copy`: how it is made to trust a hook that it would not run otherwise |
"""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

AGENTS = (
    "claude-code",  # a denial has its shape when the agent is not known
    "codex",
    "gemini",
    "qwen",
    "copilot",
    "opencode",
    "cursor",
)


@cache
def part(agent: str, name: str) -> ModuleType | None:
    """Return this module of the agent's folder, None if it has none."""
    module = f"{__name__}.{agent.replace('-', '_')}.{name}"
    return import_module(module) if agent in AGENTS and find_spec(module) else None


def parts(name: str) -> dict[str, ModuleType]:
    """Return {agent: this module of its folder} of those that have it."""
    return {agent: found for agent in AGENTS if (found := part(agent, name))}
