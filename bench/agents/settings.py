"""Put the gate of an agent into a throw-away home and folder, as `connect` does."""

import json
from pathlib import Path

from approvals.agents import home_settings, part
from approvals.agents.claude_code import settings as claude_settings
from approvals.agents.claude_code.settings import LOCAL
from approvals.agents.dialect import Dialect
from approvals.agents.hook_programs import hook_command
from approvals.agents.programs import SCRIPTED


def settle(
    dialect: Dialect,
    home: Path,
    folder: Path,
    url: str,
    *,
    token: str = "none",
    patience_s: int | None = None,
    reports: bool = False,
):
    """Write the agent's settings and the gate's connection.

    Without `reports`, for a desk that is down: each would be tried for 20 seconds.
    """
    for name, content in SCRIPTED[dialect.name].settings.items():
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text(json.dumps(content))
    connection = home / "connection.json"
    told = {"address": url, "token": token, "patience_s": patience_s or dialect.hook_patience_s}
    connection.write_text(json.dumps(told))
    if not dialect.settings_file:
        added = claude_settings.entries(connection)
        added = added if reports else {"PreToolUse": added["PreToolUse"]}
        text = claude_settings.with_hooks(None, added, ours=str(connection))
        claude_settings.write(folder / LOCAL, text, folder.stat())
        return
    hooks = dialect.hooks(lambda role, event="": hook_command(connection, role, dialect.name, event))
    if isinstance(hooks, dict) and not reports:
        hooks = dict([next(iter(hooks.items()))])  # the gate comes first
    home_settings.put_in(dialect, home, hooks, ours=str(connection))
    if trust := part(dialect.name, "trust"):
        trust.make_true(home, folder, ours=str(connection))
