"""How `claude` is started without a terminal: `claude -p`, which prints JSON lines."""

import json
import uuid
from dataclasses import replace

from approvals.agents.claude_code.dialect import DIALECT
from approvals.agents.claude_code.own_settings import LOCAL, SHARED
from approvals.agents.program import KEY, Launcher, ProgramResult, Scripted, Start
from workspaces.services.network import URL

QUIET = {"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
NO_SESSION = "No conversation found with session ID"

SCRIPTED = Scripted(
    ("-p", "{prompt}", "--allowedTools", "Bash"),
    {"ANTHROPIC_BASE_URL": "{url}", "ANTHROPIC_API_KEY": KEY} | QUIET,
    reads=(str(SHARED),),
    reads_in_folder=(str(LOCAL), str(SHARED)),
)


class ClaudeCode(Launcher):
    name = DIALECT.name
    package, binary = "@anthropic-ai/claude-code", "node_modules/@anthropic-ai/claude-code-*/claude"
    version = "2.1.329"
    provider, key_variable = "anthropic", "ANTHROPIC_AUTH_TOKEN"
    own_keys = ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN")
    models, key_form = ("claude-sonnet-4-5", "claude-*"), "sk-ant-"

    def first_session(self) -> str:
        return str(uuid.uuid4())

    def argv(self, program: str, start: Start) -> list[str]:
        where = ["--session-id" if start.is_first else "--resume", start.session]
        how = ["--output-format", "stream-json", "--verbose", "--model", start.model]
        how += ["--append-system-prompt", start.instructions]
        return [program, "-p", *how, *where, "--", start.prompt]

    def variables(self, start: Start) -> dict[str, str]:
        return QUIET | ({"ANTHROPIC_BASE_URL": f"{URL}/models/{self.provider}"} if start.relay else {})

    def read(self, row: dict, result: ProgramResult) -> ProgramResult:
        if row.get("type") == "system" and isinstance(row.get("session_id"), str):
            return replace(result, session=row["session_id"])
        if row.get("type") != "result":
            return result
        said = row.get("result") if isinstance(row.get("result"), str) else ""
        if NO_SESSION in json.dumps(row.get("errors") or ""):
            return replace(result, has_no_session=True)
        if row.get("is_error"):
            return replace(result, error=said or str(row.get("subtype") or "it says no more"))
        return replace(result, answer=said, is_answered=True, error="")

    def says_no_session(self, line: bytes) -> bool:
        return NO_SESSION.encode() in line


LAUNCHER = ClaudeCode()
