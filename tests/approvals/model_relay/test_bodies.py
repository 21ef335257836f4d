"""Which bodies the relay passes on: none that makes the provider do more than answer."""

import json

import pytest

from approvals.model_relay import bodies

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
