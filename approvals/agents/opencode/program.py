"""How `opencode` is started without a terminal: `opencode run`, and in workspaces over ACP by Handrail's client."""

import json
from dataclasses import replace

from approvals.agents.opencode.dialect import DIALECT
from approvals.agents.opencode.settings import CLIENT
from approvals.agents.program import KEY, MODEL, ROOT, Launcher, ProgramResult, Scripted, Start
from workspaces.drivers import own_programs
from workspaces.services.network import URL

QUIET = {
    f"OPENCODE_DISABLE_{name}": "true" for name in ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
}
ON_LOOPBACK = {
    "provider": {
        MODEL: {
            "npm": "@ai-sdk/openai-compatible",
            "name": MODEL,
            "options": {"baseURL": "{url}/v1", "apiKey": KEY},
            "models": {MODEL: {"name": MODEL, "tool_call": True}},
        }
    },
    "model": f"{MODEL}/{MODEL}",
    "small_model": f"{MODEL}/{MODEL}",
    "permission": {"*": "allow"},
    "autoupdate": False,
    "share": "disabled",
}
SCRIPTED = Scripted(
    ("run", "{prompt}", "--model", f"{MODEL}/{MODEL}"),
    {
        "OPENCODE_CONFIG_CONTENT": json.dumps(ON_LOOPBACK),
        "npm_config_registry": "{url}",  # it installs its plugins' library, and goes on without
    }
    | QUIET,
)


class OpenCode(Launcher):
    """OpenCode, over ACP: Handrail's client in the workspace starts it, prompts it and prints what it says."""

    name = DIALECT.name
    package, binary = "opencode-ai", "node_modules/opencode-*/bin/opencode"
    version = "1.18.33"
    provider, key_variable = "anthropic", "ANTHROPIC_API_KEY"
    own_keys = ("ANTHROPIC_API_KEY",)
    models, key_form = ("claude-sonnet-4-5", "claude-*"), "sk-ant-"

    def argv(self, program: str, start: Start) -> list[str]:
        turn = {"prompt": start.prompt, "session": "", "cwd": ROOT, "dialect": self.name}
        # Its session keeps the instructions.
        turn |= {"instructions": start.instructions} if start.is_first else {"session": start.session}
        of_client = ("env", "run", json.dumps(turn), "--", program, "acp")
        return own_programs.command(start.driver, f"/etc/{CLIENT}", *of_client)

    def variables(self, start: Start) -> dict[str, str]:
        model = f"{self.provider}/{start.model}"
        provider: dict = {"models": {start.model: {}}}
        if start.relay:
            provider["options"] = {"baseURL": f"{URL}/models/{self.provider}/v1"}
        own = {"model": model, "small_model": model, "enabled_providers": [self.provider]}
        # Without a model's request of its own for the session's title, which the budget would pay.
        own |= {"provider": {self.provider: provider}, "agent": {"title": {"disable": True}}}
        # Paths in its calls are relative to this variable, not to its folder.
        return {"PWD": ROOT, "OPENCODE_CONFIG_CONTENT": json.dumps(own)} | QUIET

    def read(self, row: dict, result: ProgramResult) -> ProgramResult:
        match row.get("type"):
            case "session" if isinstance(row.get("session"), str):
                return replace(result, session=row["session"])
            case "no_session":
                return replace(result, has_no_session=True)
            case "result" if isinstance(row.get("answer"), str):
                return replace(result, answer=row["answer"], is_answered=True, error="")
            case "result":
                return replace(result, error=str(row.get("error") or "it says no more"))
        return result


LAUNCHER = OpenCode()
