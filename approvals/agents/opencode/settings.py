"""OpenCode's system settings in a workspace whose environment names it: its plugin asks, and everything else too.

`"ask"` for every permission holds also when the plugin does not load. Who answers is the client that starts OpenCode:
`hooks/acp_program`, which permits what the plugin has let through.
"""

import json
import shlex
from functools import partial

from approvals.agents import hook_programs
from approvals.agents.hook_programs import PROGRAM
from approvals.agents.opencode.dialect import DIALECT

FOLDER = "opencode"  # below /etc
PLUGIN, HOOK = f"{FOLDER}/handrail.js", f"{FOLDER}/handrail_hook.py"
SETTINGS = {"permission": {"*": "ask"}, "plugin": [f"file:///etc/{PLUGIN}"], "autoupdate": False, "share": "disabled"}
CLIENT = "handrail-acp"  # below /etc: the folder of the program that starts it


def system_files(workspace) -> dict[str, bytes]:
    """Return {path below /etc: content} with OpenCode's settings, its plugin, and the client that starts it."""
    if not any(named.startswith(f"{DIALECT.name}@") for named in workspace.environment.agent_programs):
        return {}
    plugin = DIALECT.hooks(partial(_line, workspace))
    own = {f"{FOLDER}/opencode.json": json.dumps(SETTINGS, indent=2) + "\n", PLUGIN: plugin}
    files = {name: content.encode() for name, content in own.items()} | {HOOK: PROGRAM.read_bytes()}
    return files | {f"{CLIENT}/{name}": content for name, content in hook_programs.acp_files().items()}


def _line(workspace, role: str, event: str = "") -> str:
    return shlex.join(hook_programs.in_run(workspace, f"/etc/{HOOK}", role, DIALECT.name))
