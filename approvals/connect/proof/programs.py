"""How each agent's program is started without a terminal, on a model that is on loopback.

The agents are told to allow everything themselves: nothing but the hook stands between the model and the machine.
"""

import json
from dataclasses import dataclass, field

MODEL = "scripted"
KEY = "none"  # each agent wants one


@dataclass(frozen=True)
class Program:
    """`arguments` and `environment` with {url} for the model's address and {prompt} for the prompt."""

    arguments: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    settings: dict[str, dict] = field(default_factory=dict)  # {path below a home of its own: content}


NO_STATISTICS = {"privacy": {"usageStatisticsEnabled": False}}
OPENCODE = {
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
CODEX = {
    "check_for_update_on_startup": False,
    "model": MODEL,
    "model_provider": MODEL,
    f"model_providers.{MODEL}.name": MODEL,
    f"model_providers.{MODEL}.base_url": "{url}/v1",
    f"model_providers.{MODEL}.wire_api": "responses",
    f"model_providers.{MODEL}.env_key": "HANDRAIL_SCRIPTED_KEY",
}
PROGRAMS = {
    "claude-code": Program(
        ("-p", "{prompt}", "--allowedTools", "Bash"),
        {
            "ANTHROPIC_BASE_URL": "{url}",
            "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        },
    ),
    "codex": Program(
        (
            "exec",
            "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox",
            *(word for name, value in CODEX.items() for word in ("-c", f"{name}={json.dumps(value)}")),
            "{prompt}",
        ),
        {"HANDRAIL_SCRIPTED_KEY": KEY},
    ),
    "gemini": Program(
        ("-p", "{prompt}", "--yolo", "-m", MODEL),
        {
            "GOOGLE_GEMINI_BASE_URL": "{url}",
            "GEMINI_API_KEY": KEY,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GEMINI_TELEMETRY_ENABLED": "false",
        },
        {".gemini/settings.json": {"security": {"auth": {"selectedType": "gemini-api-key"}}} | NO_STATISTICS},
    ),
    "qwen": Program(
        ("-p", "{prompt}", "--yolo", "--auth-type", "openai", "-m", MODEL),
        {"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_KEY": KEY, "OPENAI_MODEL": MODEL},
        {".qwen/settings.json": NO_STATISTICS},
    ),
    "copilot": Program(
        ("-p", "{prompt}", "--allow-all-tools", "--no-color"),
        {
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_BASE_URL": "{url}/v1",
            "COPILOT_PROVIDER_API_KEY": KEY,
            "COPILOT_MODEL": "gpt-5.5",
        },
    ),
    "opencode": Program(
        ("run", "{prompt}", "--model", f"{MODEL}/{MODEL}"),
        {
            "OPENCODE_CONFIG_CONTENT": json.dumps(OPENCODE),
            "OPENCODE_DISABLE_AUTOUPDATE": "true",
            "OPENCODE_DISABLE_MODELS_FETCH": "true",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "true",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "true",
            "npm_config_registry": "{url}",  # it installs its plugins' library, and goes on without
        },
    ),
}


def command(agent: str, program: str, prompt: str, url: str) -> list[str]:
    """Return the words that start the agent with this prompt, on the model at this address."""
    words = (prompt if word == "{prompt}" else word.replace("{url}", url) for word in PROGRAMS[agent].arguments)
    return [program, *words]


def environment(agent: str, url: str) -> dict[str, str]:
    """Return the variables that send the agent to the model at this address and nowhere else."""
    given = {name: value.replace("{url}", url) for name, value in PROGRAMS[agent].environment.items()}
    return given | {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
