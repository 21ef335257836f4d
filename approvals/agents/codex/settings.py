"""Codex's managed settings in a workspace: the gate, which neither a user's settings nor an option switches off."""

import json
from functools import partial
from pathlib import Path

from approvals.agents.codex.dialect import DIALECT
from approvals.agents.hook_programs import PROGRAM, in_run
from workspaces.drivers import own_programs

FOLDER = "codex"  # below /etc
REQUIREMENTS, HOOK = f"{FOLDER}/requirements.toml", f"{FOLDER}/handrail_hook.py"
START = f"/etc/{FOLDER}/handrail_start.py"  # the program that starts Codex
STARTER = Path(__file__).parent / "start.py"
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
    hooks = DIALECT.hooks(partial(_line, workspace))
    requirements = HEAD + "".join(map(_toml, hooks.items()))
    programs = {HOOK: PROGRAM.read_bytes(), START.removeprefix("/etc/"): STARTER.read_bytes()}
    return {REQUIREMENTS: requirements.encode()} | programs


def _line(workspace, role: str, *event: str) -> str:
    words = in_run(workspace, f"/etc/{HOOK}", role, DIALECT.name, *event)
    return own_programs.shell_line(words, is_gate=role == "gate")


def _toml(entry: tuple[str, dict]) -> str:
    event, group = entry
    hook = group["hooks"][0]
    matcher = f"matcher = {json.dumps(group['matcher'])}\n" if "matcher" in group else ""
    values = "".join(f"{name} = {json.dumps(value)}\n" for name, value in hook.items())
    return f"\n[[hooks.{event}]]\n{matcher}\n[[hooks.{event}.hooks]]\n{values}"
