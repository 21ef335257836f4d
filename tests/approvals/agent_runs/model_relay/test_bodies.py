"""Which bodies the relay passes on: none that makes the provider do more than answer."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from approvals.agent_runs.model_relay import bodies
from tests.support import CHECKOUT

SAID = {"role": "user", "content": "hello"}
OPENAI_SAID = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}
PICTURE = {"type": "base64", "media_type": "image/png", "data": "AA=="}


def anthropic(**more) -> dict:
    return {"model": "claude-x", "max_tokens": 10, "messages": [SAID]} | more


def openai(**more) -> dict:
    return {"model": "gpt-x", "input": [OPENAI_SAID]} | more


def content(*parts) -> dict:
    return {"messages": [{"role": "user", "content": list(parts)}]}


@pytest.mark.parametrize(
    ("provider", "body"),
    [
        ("anthropic", anthropic()),
        ("anthropic", anthropic(tools=[{"name": "Bash", "input_schema": {}}])),
        ("anthropic", anthropic(tools=[{"type": "custom", "name": "x"}, {"type": "bash_20250124", "name": "bash"}])),
        ("anthropic", anthropic(**content({"type": "image", "source": PICTURE}))),
        # What a tool was called with is data, whatever its fields are called.
        (
            "anthropic",
            anthropic(**content({"type": "tool_use", "id": "1", "input": {"type": "url", "url": "https://x"}})),
        ),
        ("openai", openai(store=False)),
        ("openai", openai(tools=[{"type": "function", "name": "x"}, {"type": "local_shell"}])),
        ("openai", openai(tools=[{"type": "namespace", "tools": [{"type": "function", "name": "x"}]}])),
        ("openai", openai(input=[{"type": "function_call", "arguments": '{"file_url": "https://x"}'}])),
        (
            "openai",
            openai(
                input=[{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,A"}]}]
            ),
        ),
    ],
)
def test_what_only_answers_passes_and_is_written_as_it_was_read(provider, body):
    read = bodies.read(json.dumps(body).encode())
    bodies.check(provider, read, with_tools=False)
    assert json.loads(bodies.written(read)) == body


@pytest.mark.parametrize(
    ("provider", "body", "named"),
    [
        ("anthropic", anthropic(tools=[{"type": "web_search_20250305", "name": "web_search"}]), "web_search_20250305"),
        ("anthropic", anthropic(tools=[{"type": "web_fetch_20250910", "name": "web_fetch"}]), "web_fetch_20250910"),
        ("anthropic", anthropic(tools=[{"type": "code_execution_20250825", "name": "x"}]), "code_execution_20250825"),
        ("anthropic", anthropic(tools=[{"type": "one_of_tomorrow_20300101", "name": "x"}]), "one_of_tomorrow_20300101"),
        ("anthropic", anthropic(tools=[{"type": ["custom"], "name": "x"}]), "the tool"),
        ("anthropic", anthropic(tools=["web_search"]), "the tool"),
        ("anthropic", anthropic(mcp_servers=[{"type": "url", "url": "https://x"}]), "mcp_servers"),
        ("anthropic", anthropic(container="c_1"), "container"),
        (
            "anthropic",
            anthropic(**content({"type": "image", "source": {"type": "url", "url": "https://x"}})),
            "addresses",
        ),
        ("anthropic", anthropic(**content({"type": "document", "source": {"type": "file", "file_id": "f"}})), "files"),
        ("anthropic", anthropic(system=[{"type": "document", "source": {"type": "url", "url": "x"}}]), "addresses"),
        ("openai", openai(tools=[{"type": "web_search"}]), "web_search"),
        ("openai", openai(tools=[{"type": "web_search_preview"}]), "web_search_preview"),
        ("openai", openai(tools=[{"type": "mcp", "server_url": "https://x"}]), "the tool mcp"),
        ("openai", openai(tools=[{"type": "code_interpreter"}]), "code_interpreter"),
        ("openai", openai(tools=[{"type": "file_search"}]), "file_search"),
        ("openai", openai(tools=[{"name": "no type"}]), "the tool"),
        ("openai", openai(tools=[{"type": "namespace", "tools": [{"type": "web_search"}]}]), "web_search"),
        ("openai", openai(tools={"type": "web_search"}), "no list"),
        ("openai", openai(input=[{"type": "item_reference", "id": "msg_1"}]), "files"),
        ("openai", openai(previous_response_id="r"), "previous_response_id"),
        ("openai", openai(conversation="c"), "conversation"),
        ("openai", openai(background=True), "background"),
        (
            "openai",
            openai(input=[{"role": "user", "content": [{"type": "input_image", "image_url": "https://x"}]}]),
            "addresses",
        ),
        (
            "openai",
            openai(input=[{"role": "user", "content": [{"type": "input_file", "file_url": "https://x"}]}]),
            "addresses",
        ),
        ("openai", openai(input=[{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]), "files"),
    ],
)
def test_what_does_more_is_refused_unless_the_environment_allows_it(provider, body, named):
    with pytest.raises(bodies.BodyRefused, match=named):
        bodies.check(provider, body, with_tools=False)
    bodies.check(provider, body, with_tools=True)


@pytest.mark.parametrize("data", [b"", b"[]", b"nonsense", b'{"model": "a", "model": "b"}', b'{"a": ' + b"[" * 100_000])
def test_what_two_readers_could_read_differently_is_refused(data):
    with pytest.raises(bodies.BodyRefused):
        bodies.read(data)


def test_a_body_without_a_model_or_nested_without_end_is_refused():
    with pytest.raises(bodies.BodyRefused, match="model"):
        bodies.check("anthropic", {"messages": []}, with_tools=True)
    deep = {"type": "text"}
    for _ in range(60):
        deep = {"content": [deep]}
    with pytest.raises(bodies.BodyRefused, match="deeply"):
        bodies.check("anthropic", anthropic(messages=[deep]), with_tools=False)


# Every object of a request in which a provider could be told to do more, wherever it stands.
RUNS_THERE = {
    "anthropic": [{"type": "web_fetch_20260318", "name": "f"}, {"type": "mcp_toolset", "mcp_server_name": "x"}],
    "openai": [{"type": "mcp", "server_url": "https://x"}, {"type": "web_search"}],
}
PLACES = {
    "anthropic": [
        lambda tool: content({"type": "tool_addition", "tool": {"type": "tool_definition", "definition": tool}}),
        lambda tool: content({"type": "tool_result", "tool_use_id": "1", "content": [{"tools": [tool]}]}),
        lambda tool: {"system": [{"type": "text", "text": "x", "tools": [tool]}]},
        lambda tool: {"tools": [{"name": "own", "tools": [tool]}]},
        lambda tool: {"tool_choice": tool},
    ],
    "openai": [
        lambda tool: {"input": [{"type": "additional_tools", "role": "developer", "tools": [tool]}]},
        lambda tool: {"input": [{"type": "tool_search_output", "call_id": "1", "tools": [tool]}]},
        lambda tool: {"input": [{"type": "message", "role": "user", "content": [tool]}]},
        lambda tool: {"tools": [{"type": "namespace", "name": "n", "tools": [tool]}]},
        lambda tool: {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [tool]}},
    ],
}
MINIMAL = {"anthropic": anthropic, "openai": openai}


@pytest.mark.parametrize(
    ("provider", "place", "tool"),
    [(name, place, tool) for name in PLACES for place in PLACES[name] for tool in RUNS_THERE[name]],
)
def test_no_place_of_a_request_holds_a_tool_that_runs_at_the_provider(provider, place, tool):
    with pytest.raises(bodies.BodyRefused):
        bodies.check(provider, MINIMAL[provider](**place(tool)), with_tools=False)


@pytest.mark.parametrize(
    ("provider", "field"),
    [
        *((name, field) for name, listed in bodies.PUBLISHED.items() for field in listed["fields"]),
        ("anthropic", "a_field_of_tomorrow"),
        ("openai", "n"),
        ("openai", "a_field_of_tomorrow"),
    ],
)
def test_a_field_is_passed_on_only_if_it_is_listed_as_allowed(provider, field):
    body = MINIMAL[provider]()
    body.setdefault(field, {})
    if field in bodies.FIELDS[provider]:
        body = MINIMAL[provider]() | {field: body[field] or None}
        bodies.check(provider, body | {"model": "m"}, with_tools=False)
        return
    with pytest.raises(bodies.BodyRefused, match=field):
        bodies.check(provider, body, with_tools=False)


@pytest.mark.parametrize(
    ("provider", "more"),
    [
        ("anthropic", {"fallbacks": [{"model": "claude-opus-4-8", "max_tokens": 900000}]}),
        ("anthropic", {"thread": {"type": "continue", "previous_message_id": "m"}}),
        ("anthropic", {"tools": [{"type": "advisor_20260301", "name": "a", "model": "claude-opus-4-8"}]}),
        ("anthropic", {"user_profile_id": "u"}),
        ("openai", {"background_options": {"x": 1}}),
        ("openai", {"service_tier": "priority"}),
    ],
)
@pytest.mark.parametrize("with_tools", [False, True])
def test_no_environment_lets_other_models_accounts_and_prices_in(provider, more, with_tools):
    with pytest.raises(bodies.BodyRefused):
        bodies.check(provider, MINIMAL[provider](**more), with_tools=with_tools)


@pytest.mark.parametrize("number", [128000.0, "128000", True, -1, 10**12, [5], {"a": 1}])
@pytest.mark.parametrize("with_tools", [False, True])
def test_a_limit_is_a_whole_number(number, with_tools):
    for provider, field in (("anthropic", "max_tokens"), ("openai", "max_output_tokens")):
        with pytest.raises(bodies.BodyRefused, match=field):
            bodies.check(provider, MINIMAL[provider](**{field: number}), with_tools=with_tools)
    thinking = {"type": "enabled", "budget_tokens": number}
    with pytest.raises(bodies.BodyRefused, match="budget_tokens"):
        bodies.check("anthropic", anthropic(thinking=thinking), with_tools=with_tools)


def test_only_listed_betas_are_passed_on():
    asked = "interleaved-thinking-2025-05-14, inline-tools-2026-09-15,,x, mcp-client-2025-11-20"
    assert bodies.allowed_betas("anthropic", asked) == "interleaved-thinking-2025-05-14"
    assert bodies.allowed_betas("openai", "responses=experimental") == ""


# What the programs of agents were seen to send, at the versions of deploy/agents.txt in November 2026.
SEEN = {
    "claude-code": (
        "anthropic",
        "context_management max_tokens messages metadata model stream system thinking tools",
        "clear_thinking_20251015 enabled ephemeral text tool_result tool_use",
        "advanced-tool-use-2025-11-20 claude-code-20250219 context-management-2025-06-27"
        " interleaved-thinking-2025-05-14 thinking-display-updates-2026-08-18 thinking-token-count-2026-05-13",
    ),
    "codex": (
        "openai",
        "client_metadata include input model parallel_tool_calls prompt_cache_key reasoning store stream"
        " tool_choice tools",
        "function function_call function_call_output input_text message namespace output_text",
        "",
    ),
    "opencode": (
        "anthropic",
        "max_tokens messages model stream system thinking tool_choice tools",
        "auto enabled ephemeral text tool_result tool_use",
        "fine-grained-tool-streaming-2025-05-14 interleaved-thinking-2025-05-14 structured-outputs-2025-11-13",
    ),
}


@pytest.mark.parametrize("program", SEEN)
def test_what_agents_send_is_allowed(program):
    provider, *seen = SEEN[program]
    for allowed, names in zip((bodies.FIELDS, bodies.KINDS, bodies.BETAS), seen, strict=True):
        assert set(names.split()) <= allowed[provider]


def test_what_the_providers_publish_is_listed(require):
    """A field, type or beta that a newer SDK has is refused until somebody reads it and lists it."""
    python = os.environ.get("HANDRAIL_TEST_FRAMEWORKS") or str(CHECKOUT / ".venv-frameworks" / "bin" / "python")
    has_both = [python, "-c", "import anthropic, openai"]
    if not Path(python).exists() or subprocess.run(has_both, capture_output=True, check=False).returncode:
        require("frameworks", "there is no .venv-frameworks with both SDKs; `deploy/frameworks.sh` makes it")
    program = Path(__file__).with_name("published.py")
    published = json.loads(subprocess.run([python, program], capture_output=True, check=True).stdout)
    for provider, told in published.items():
        listed = bodies.PUBLISHED[provider]
        assert told.pop("version") == listed["version"]
        for group, names in told.items():
            assert set(names) - {"betas"} <= set(listed[group]), f"{provider}: read and list these {group}"
