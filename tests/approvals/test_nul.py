"""NUL in any text of a call has one answer on both databases: a card that shows it as ␀, or a refusal in words."""

import functools
import json
import uuid

import pytest
from django.db import DataError

from approvals.agents import dialects
from approvals.models import Action
from dashboard.urls import api as rest
from dashboard.web.middleware import UnstorableText
from tests.approvals.agents.real_agents import after, headers
from tests.approvals.agents.real_agents import before as asked_by
from tests.approvals.conftest import before, full
from workspaces import operations

NUL = "a\0b"
EVENTS = [
    *(before({"file_path": f"/tmp/{NUL}", "content": NUL}, tool=tool) for tool in ("Write", "Read", "Edit", "Glob")),
    before({"url": f"https://example.com/{NUL}", "prompt": NUL}, tool="WebFetch"),
    before({"path": NUL, "pattern": NUL, "query": NUL, NUL: NUL}, tool="mcp__server__tool"),
    before({"amount": NUL}, tool="mcp__pay__send"),
    before({"command": f"ls {NUL}"}),
    before({"command": "ls", "description": NUL}),
    *(before(**{name: NUL}) for name in ("session", "call_id", "cwd", "tool")),
    *(before(**{name: NUL}) for name in ("transcript_path", "permission_mode", "prompt_id", "more")),
]


@pytest.fixture(autouse=True)
def short_hold(settings):
    settings.HANDRAIL_HOLD_SECONDS = 0.2


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("event", EVENTS, ids=range(len(EVENTS)))
def test_nul_in_a_field_of_a_hooks_call_is_shown_or_refused_in_words(hook, agent_token, event):
    answer = full(hook(agent_token, json.dumps(event).encode()))
    assert b"Handrail failed" not in answer.body
    for action in Action.objects.all():
        texts = [action.title, action.session, action.call_id, *map(str, action.revisions.get().reasons)]
        assert not any("\0" in text for text in texts)


def leaves(value, path=()):
    """The paths of all texts and nulls in JSON, and one for a further key of each object."""
    if isinstance(value, dict):
        yield (*path, NUL)
        for key, each in value.items():
            yield from leaves(each, (*path, key))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from leaves(each, (*path, number))
    elif isinstance(value, str) or value is None:
        yield path


def with_text(value, path, text):
    copied = json.loads(json.dumps(value))
    inner = copied
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = text
    return copied


TURNS = {
    "session_id": "s", "cwd": "/home/mia", "transcript_path": "/t", "prompt": "p", "message": "m", "reason": "r",
    "source": "startup", "model": "m", "last_assistant_message": "l", "agent_id": "a", "agent_type": "t", "error": "e",
    "notification_type": "n", "title": "t", "tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "c",
}  # fmt: skip
HEARD = (
    "UserPromptSubmit", "SessionStart", "SessionEnd", "Stop", "SubagentStart", "SubagentStop", "Notification",
    "PermissionRequest", "PostToolUse", "PostToolUseFailure", "Elicitation", "PreCompact",
)  # fmt: skip


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", HEARD)
def test_nul_in_a_field_of_any_event_of_a_session_is_answered(hook, agent_token, name):
    event = TURNS | {"hook_event_name": name}
    for path in leaves(event):
        if path != ("hook_event_name",):
            full(hook(agent_token, json.dumps(with_text(event, path, NUL)).encode()))
            assert b"Handrail failed" not in hook(agent_token, json.dumps(event).encode()).body


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("status", [0, 1, None])
@pytest.mark.parametrize("program", [*dialects.DIALECTS, *dialects.CLIENT_DIALECTS])
def test_nul_in_a_report_after_a_call_is_answered(hook, agent_token, program, status):
    def send(event, name="preToolUse"):
        told = json.dumps(event).encode()
        return hook(agent_token, told, path=f"/hooks/{program}", headers=headers(program, name))

    send(asked_by(program, {"command": "ls"}))
    event, name = after(program, {"command": "ls"}, status)
    for path in leaves(event):
        if path != ("hook_event_name",):
            assert b"Handrail failed" not in full(send(with_text(event, path, NUL), name)).body


# The API -------------------------------------------------------------------------------------------------------------


@functools.cache
def described() -> dict:
    """The OpenAPI document; made when a test needs it, as it takes seconds."""
    return json.loads(json.dumps(rest.get_openapi_schema(), default=str))


def example(schema: dict, depth=0):
    """A value of this schema, with each field that it can have."""
    if "$ref" in schema:
        return example(described()["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]], depth + 1)
    if choices := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
        return example(next((each for each in choices if each.get("type") != "null"), choices[0]), depth + 1)
    if "const" in schema or "enum" in schema:
        return schema.get("const") or schema["enum"][0]
    match schema.get("type"):
        case "object" if "properties" in schema and depth < 8:
            return {name: example(each, depth + 1) for name, each in schema["properties"].items()}
        case "object":
            return {"a": "x"}
        case "array":
            return [example(schema.get("items", {}), depth + 1)]
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return False
    return str(uuid.UUID(int=1)) if schema.get("format") == "uuid" else "x"


@pytest.fixture
def known(ask, workspace, agent, team, bob):
    """What the names in an address can name, so that a request comes as far as it can."""
    action = ask()
    names = {"key": workspace.key, "action_id": str(action.pk), "agent": agent.name, "name": agent.name}
    return names | {"team": team.slug, "slug": team.slug, "username": bob.username, "number": "1"}


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_nul_in_a_text_of_any_request_of_the_api_is_answered_in_words(
    client, agent_token, token_of, alice, known, monkeypatch
):
    client.raise_request_exception = False
    for name in ("wait", "wait_async"):  # there is no runner that would carry anything out
        waits = getattr(operations, name)
        monkeypatch.setattr(operations, name, lambda found, seconds, waits=waits, **more: waits(found, 0, **more))
    admin, broken = token_of(alice), []

    def send(method, path, body=None, token=admin):
        content = "" if body is None else json.dumps(body)
        bearer = {"Authorization": f"Bearer {token}"}
        answer = client.generic(method.upper(), path, content, "application/json", headers=bearer)
        if answer.status_code == 403 and token == admin:
            send(method, path, body, agent_token)
        if answer.status_code >= 500 and answer.status_code != 503:
            broken.append((method, path, body, answer.content[:200]))

    paths = described()["paths"].items()
    for method, path, operation in ((method, path, row[method]) for path, row in paths for method in row):
        names = [each["name"] for each in operation.get("parameters", ()) if each["in"] == "path"]
        filled = path
        for name in names:
            filled = filled.replace(f"{{{name}}}", known.get(name, str(uuid.UUID(int=1))))
            send(method, path.replace(f"{{{name}}}", "a%00b").replace("{", "").replace("}", ""))
        for each in operation.get("parameters", ()):
            if each["in"] == "query":
                send(method, f"{filled}?{each['name']}=a%00b")
        content = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if content:
            body = example(content["schema"])
            for text in leaves(body):
                send(method, filled, with_text(body, text, NUL))
    assert broken == []


@pytest.mark.django_db(transaction=True)
def test_nul_in_a_text_of_a_request_of_the_approval_protocol_is_answered_in_words(client, agent_token):
    def send(path, body, key="k"):
        headers = {"Authorization": f"Bearer {agent_token}", "Idempotency-Key": key}
        return client.post(f"/aap/v1{path}", json.dumps(body), content_type="application/json", headers=headers)

    asked = {"tool": "Bash", "arguments": {"command": "ls", "of": "x"}, "timeout": "10m", "agent_reasoning": "r"}
    asked |= {"context": {"call_id": "c", "more": "x"}}
    known = send("/requests", asked).json()["id"]
    told = {"instance_name": "n", "delivery": {"type": "webhook", "url": "https://x.example/", "signing_secret": "s"}}
    outcome = {"status": "succeeded", "note": "n"}
    for path, body in (("/requests", asked), ("/instances", told), (f"/requests/{known}/outcome", outcome)):
        for text in leaves(body):
            assert send(path, with_text(body, text, NUL), key=str(uuid.uuid4())).status_code < 500
        assert send(path, body, key=NUL).status_code < 500


def test_a_form_whose_text_no_database_stores_is_answered_with_a_sentence(rf):
    request = rf.post("/", {"text": NUL})
    said = DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
    answer = UnstorableText(lambda request: None).process_exception(request, said)
    assert (answer.status_code, "Nothing was changed." in answer.content.decode()) == (400, True)
    assert UnstorableText(lambda request: None).process_exception(request, DataError("of another kind")) is None


@pytest.mark.django_db(transaction=True)
def test_half_of_a_surrogate_pair_is_refused_in_words_at_each_door(hook, client, agent_token):
    half = json.dumps(before({"command": "ls \ud800"}))
    assert b"no canonical form" in hook(agent_token, half.encode()).body
    bearer = {"Authorization": f"Bearer {agent_token}", "Idempotency-Key": "k"}
    body = '{"tool":"Bash","arguments":{"command":"ls \\ud800"},"timeout":"10m"}'
    for path in ("/api/v1/actions", "/aap/v1/requests"):
        answer = client.post(path, body, content_type="application/json", headers=bearer)
        assert (answer.status_code in (400, 422), b"no canonical form" in answer.content) == (True, True)
    assert not Action.objects.exists()
