"""The table of dialects: one for each agent, under the contract in `dialect.py`."""

from approvals.agents.acp.dialect import ACP
from approvals.agents.claude_code.dialect import ClaudeCode
from approvals.agents.codex.dialect import Codex
from approvals.agents.copilot.dialect import Copilot
from approvals.agents.dialect import Dialect
from approvals.agents.gemini.dialect import Gemini
from approvals.agents.opencode.dialect import OpenCode
from approvals.agents.qwen.dialect import Qwen

ALL = (ClaudeCode(), Codex(), Gemini(), Qwen(), Copilot(), OpenCode())
DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in ALL}
CLIENT_DIALECTS = {ACP.name: ACP()}  # an agent's client asks, not its hook; `connect` has no entry for them
DEFAULT = DIALECTS["claude-code"]  # whose shape a denial has when the agent is not known


def find(name: str) -> Dialect | None:
    """Return the dialect of this name, None if there is none."""
    return DIALECTS.get(name) or CLIENT_DIALECTS.get(name)


def of_path(path: str) -> Dialect:
    """Return the dialect of an address below /hooks/, the default one if it names none."""
    return find(path.partition("?")[0].rpartition("/")[2]) or DEFAULT
