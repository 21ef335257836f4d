"""How `codex` is started without a terminal: `codex exec`, which prints JSON lines."""

import json
from dataclasses import replace

from approvals.agents.codex.dialect import DIALECT
from approvals.agents.codex.settings import START
from approvals.agents.program import KEY, MODEL, MODEL_TOKEN, Launcher, ProgramResult, Scripted, Start
from workspaces.drivers import own_programs
from workspaces.services.network import URL

QUIET = {"check_for_update_on_startup": False}
UNASKED = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
SCRIPTED_KEY = "HANDRAIL_SCRIPTED_KEY"


def _provider(name: str, title: str, url: str, key_variable: str) -> dict:
    """Return the settings of a provider of models at this address."""
    told = {"name": title, "base_url": url, "wire_api": "responses", "env_key": key_variable}
    return {"model_provider": name} | {f"model_providers.{name}.{each}": value for each, value in told.items()}


def _options(settings: dict) -> list[str]:
    """Return the options that set these, as TOML, whose strings are JSON's but for surrogates."""
    values = {name: json.dumps(value, ensure_ascii=False) for name, value in settings.items()}
    return [word for name, value in values.items() for word in ("-c", f"{name}={value}")]


# Its search of the web runs at the provider.
RELAY = _provider("handrail", "Handrail", f"{URL}/models/openai/v1", MODEL_TOKEN) | {"web_search": "disabled"}
ON_LOOPBACK = QUIET | {"model": MODEL} | _provider(MODEL, MODEL, "{url}/v1", SCRIPTED_KEY)
SCRIPTED = Scripted(("exec", *UNASKED, *_options(ON_LOOPBACK), "{prompt}"), {SCRIPTED_KEY: KEY})


class Codex(Launcher):
    name = DIALECT.name
    package, binary = "@openai/codex", "node_modules/@openai/codex-*/vendor/*/bin/codex"
    version = "0.169.0"
    provider, key_variable = "openai", MODEL_TOKEN
    own_keys = ("CODEX_API_KEY",)
    models, key_form = ("gpt-5", "gpt-*"), "sk-"

    def argv(self, program: str, start: Start) -> list[str]:
        settings = QUIET | {"developer_instructions": start.instructions}
        settings |= RELAY if start.relay else {}
        # Its own sandbox can't be made within the workspace's; its hook in /etc stays whatever it is told.
        how = [*_options(settings), "--json", *UNASKED, "-m", start.model]
        where = [] if start.is_first else ["resume", start.session]
        of_codex = (program, "exec", *where, *how, "--", start.prompt)
        return own_programs.command(start.driver, START, *of_codex)

    def variables(self, start: Start) -> dict[str, str]:
        return {}

    def read(self, row: dict, result: ProgramResult) -> ProgramResult:
        match row.get("type"):
            case "thread.started" if isinstance(row.get("thread_id"), str):
                return replace(result, session=row["thread_id"])
            case "item.completed":
                item = row.get("item")
                if isinstance(item, dict) and item.get("type") == "agent_message" and isinstance(item.get("text"), str):
                    return replace(result, answer=item["text"])
            case "turn.completed":
                return replace(result, is_answered=True, error="")
            case "turn.failed":
                error = row.get("error")
                words = error.get("message") if isinstance(error, dict) else ""
                return replace(result, error=str(words or "it says no more"))
        return result


LAUNCHER = Codex()
