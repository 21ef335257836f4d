"""How each agent's program is started without a terminal and resumes its session, and how its output is read.

Its calls are gated by the hook in /etc of its workspace, so it is told to ask nobody else. It asks its models at the
relay, if the environment gives it some; else at its provider, with a key that the environment gives its programs.
"""

import json
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace

from workspaces.drivers import own_programs
from workspaces.provisioning.agent_programs import ACP_CLIENT, CODEX_START
from workspaces.services.network import URL

MAX_LINE = 4 << 20  # bytes of one line of output that is read
MAX_LAST_WORDS = 300  # characters
MAX_SAID = 100_000  # characters of an answer that are kept
ROOT = "/workspace"  # the files, in each workspace
MODEL_TOKEN = "HANDRAIL_MODEL_TOKEN"


@dataclass(frozen=True)
class ProgramResult:
    """What a program's output says: its session, its last answer, and its error if it ended with one."""

    session: str = ""
    answer: str = ""
    is_answered: bool = False
    error: str = ""
    has_no_session: bool = False  # it does not know the session that it was to resume
    last_words: str = ""  # the last line that is no event, such as a traceback's


@dataclass(frozen=True)
class Start:
    """One turn: its prompt, the instructions that stand beside it, and the session that it begins or resumes."""

    prompt: str
    instructions: str
    session: str
    is_first: bool
    model: str
    relay: bool
    driver: str  # of its workspace


class Launcher(ABC):
    """One agent's program."""

    name: str  # as in `agent_programs` and the dialects
    provider: str
    key_variable: str  # in which it is given the token of the relay
    own_keys: tuple[str, ...]  # secrets with which it can ask its provider itself

    @abstractmethod
    def argv(self, program: str, start: Start) -> list[str]:
        """Return the command line of a turn."""

    @abstractmethod
    def variables(self, start: Start) -> dict[str, str]:
        """Return its environment, without the token."""

    @abstractmethod
    def read(self, row: dict, result: ProgramResult) -> ProgramResult:
        """Return the result updated with one parsed line of output."""

    def first_session(self) -> str:
        """Return the id that a new session is given; "" if the program chooses one."""
        return ""

    def parse_output(self, pieces: Iterable[bytes]) -> ProgramResult:
        """Return what the output says, which comes in pieces."""
        result, rest = ProgramResult(), b""
        for piece in pieces:
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                result = self._with_line(line, result)
            rest = rest[-MAX_LINE:]
        return self._with_line(rest, result)

    def _with_line(self, line: bytes, result: ProgramResult) -> ProgramResult:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            said = line.decode("utf-8", "replace").strip()[:MAX_LAST_WORDS] or result.last_words
            return replace(result, last_words=said, has_no_session=result.has_no_session or NO_SESSION in line)
        return self.read(row, result) if isinstance(row, dict) else result


NO_SESSION = b"No conversation found with session ID"


class ClaudeCode(Launcher):
    name, provider, key_variable = "claude-code", "anthropic", "ANTHROPIC_AUTH_TOKEN"
    own_keys = ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN")

    def first_session(self) -> str:
        return str(uuid.uuid4())

    def argv(self, program: str, start: Start) -> list[str]:
        where = ["--session-id" if start.is_first else "--resume", start.session]
        how = ["--output-format", "stream-json", "--verbose", "--model", start.model]
        how += ["--append-system-prompt", start.instructions]
        return [program, "-p", *how, *where, "--", start.prompt]

    def variables(self, start: Start) -> dict[str, str]:
        quiet = {"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        return quiet | ({"ANTHROPIC_BASE_URL": f"{URL}/models/{self.provider}"} if start.relay else {})

    def read(self, row: dict, result: ProgramResult) -> ProgramResult:
        if row.get("type") == "system" and isinstance(row.get("session_id"), str):
            return replace(result, session=row["session_id"])
        if row.get("type") != "result":
            return result
        said = row.get("result") if isinstance(row.get("result"), str) else ""
        if NO_SESSION.decode() in json.dumps(row.get("errors") or ""):
            return replace(result, has_no_session=True)
        if row.get("is_error"):
            return replace(result, error=said or str(row.get("subtype") or "it says no more"))
        return replace(result, answer=said, is_answered=True, error="")


class Codex(Launcher):
    name, provider, key_variable = "codex", "openai", MODEL_TOKEN
    own_keys = ("CODEX_API_KEY",)
    relay_settings = {
        "model_provider": "handrail",
        "model_providers.handrail.name": "Handrail",
        "model_providers.handrail.base_url": f"{URL}/models/openai/v1",
        "model_providers.handrail.wire_api": "responses",
        "model_providers.handrail.env_key": MODEL_TOKEN,
        "web_search": "disabled",  # it runs at the provider
    }

    def argv(self, program: str, start: Start) -> list[str]:
        settings = {"check_for_update_on_startup": False, "developer_instructions": start.instructions}
        settings |= self.relay_settings if start.relay else {}
        # As TOML, whose strings are JSON's but for surrogates.
        values = {name: json.dumps(value, ensure_ascii=False) for name, value in settings.items()}
        how = [word for name, value in values.items() for word in ("-c", f"{name}={value}")]
        # Its own sandbox can't be made within the workspace's; its hook in /etc stays whatever it is told.
        how += ["--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-m", start.model]
        where = [] if start.is_first else ["resume", start.session]
        of_codex = (program, "exec", *where, *how, "--", start.prompt)
        return own_programs.command(start.driver, CODEX_START, *of_codex)

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


class OpenCode(Launcher):
    """OpenCode, over ACP: Handrail's client in the workspace starts it, prompts it and prints what it says."""

    name, provider, key_variable = "opencode", "anthropic", "ANTHROPIC_API_KEY"
    own_keys = ("ANTHROPIC_API_KEY",)

    def argv(self, program: str, start: Start) -> list[str]:
        turn = {"prompt": start.prompt, "session": "", "cwd": ROOT, "dialect": self.name}
        # Its session keeps the instructions.
        turn |= {"instructions": start.instructions} if start.is_first else {"session": start.session}
        of_client = ("env", "run", json.dumps(turn), "--", program, "acp")
        return own_programs.command(start.driver, ACP_CLIENT, *of_client)

    def variables(self, start: Start) -> dict[str, str]:
        model = f"{self.provider}/{start.model}"
        provider: dict = {"models": {start.model: {}}}
        if start.relay:
            provider["options"] = {"baseURL": f"{URL}/models/{self.provider}/v1"}
        own = {"model": model, "small_model": model, "enabled_providers": [self.provider]}
        # Without a model's request of its own for the session's title, which the budget would pay.
        own |= {"provider": {self.provider: provider}, "agent": {"title": {"disable": True}}}
        quiet = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
        # Paths in its calls are relative to this variable, not to its folder.
        given = {"PWD": ROOT, "OPENCODE_CONFIG_CONTENT": json.dumps(own)}
        return given | {f"OPENCODE_DISABLE_{name}": "true" for name in quiet}

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


LAUNCHERS: dict[str, Launcher] = {launcher.name: launcher for launcher in (ClaudeCode(), Codex(), OpenCode())}
