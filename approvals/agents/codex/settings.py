"""Codex's managed settings in a workspace: the gate, which neither a user's settings nor an option switches off."""

import json
from functools import partial

from approvals.agents import dialects
from approvals.agents.hook_programs import CODEX_START, PROGRAM, in_run
from workspaces.drivers import own_programs
from workspaces.provisioning import agent_programs

FOLDER = "codex"  # below /etc
REQUIREMENTS, HOOK = f"{FOLDER}/requirements.toml", f"{FOLDER}/handrail_hook.py"
START = agent_programs.CODEX_START.removeprefix("/etc/")
# `unified_exec = false` takes `write_stdin` from the model: what it types into a running program is not gated.
HEAD = f"""allow_managed_hooks_only = true

[features]
hooks = true
unified_exec = false

[hooks]
managed_dir = "/etc/{FOLDER}"
"""


def system_files(workspace) -> dict[str, bytes]:
    """Return {path below /etc: content} with Codex's requirements and the program of their hooks."""
    hooks = dialects.DIALECTS["codex"].hooks(partial(_line, workspace))
    requirements = HEAD + "".join(map(_toml, hooks.items()))
    return {REQUIREMENTS: requirements.encode(), HOOK: PROGRAM.read_bytes(), START: CODEX_START.read_bytes()}


def _line(workspace, role: str, *event: str) -> str:
    words = in_run(workspace, f"/etc/{HOOK}", role, "codex", *event)
    return own_programs.shell_line(words, is_gate=role == "gate")


def _toml(entry: tuple[str, dict]) -> str:
    event, group = entry
    hook = group["hooks"][0]
    matcher = f"matcher = {json.dumps(group['matcher'])}\n" if "matcher" in group else ""
    values = "".join(f"{name} = {json.dumps(value)}\n" for name, value in hook.items())
    return f"\n[[hooks.{event}]]\n{matcher}\n[[hooks.{event}.hooks]]\n{values}"
