"""Actions in the states that tests start from, asked for through the API as an agent does."""

import asyncio
import json

import pytest
from asgiref.sync import async_to_sync
from django.core.asgi import get_asgi_application

from approvals.actions import answer as answers
from approvals.actions import gate
from approvals.evaluation.calls import Call
from approvals.hooks.fail_closed import fail_closed
from approvals.models import Action
from dashboard.models import Membership
from dashboard.people.access import Caller, caller_by_token
from dashboard.people.tokens import find_token
from workspaces.models import Environment, Workspace

ACTIONS = "/api/v1/actions"
PUSH = {"command": "git push origin main"}  # high in every mode
FORCE = {"command": "git push --force origin main"}  # critical
LIST = {"command": "pwd"}  # low, also without a workspace
WIPE = {"command": "rm -rf /"}  # forbidden


@pytest.fixture
def caller(agent_token):
    """The agent, as the gate knows it."""
    return caller_by_token(find_token(agent_token))


@pytest.fixture
def person():
    """`person(alice)`: the caller for a signed-in person."""
    return lambda user: Caller(roles=dict(Membership.objects.filter(user=user).values_list("team", "role")), user=user)


@pytest.fixture
def ask(caller):
    """`ask(PUSH, session="s")`: submit a Bash call at the gate; returns the action."""

    def submit(arguments=PUSH, *, tool="Bash", **more) -> Action:
        return gate.submit(Call(tool=tool, arguments=arguments, **more), caller=caller)[0]

    return submit


@pytest.fixture
def decide(person):
    """`decide(action, "approve", by=bob)` on the current digest."""

    def answer(action, verdict="approve", *, by, **more):
        more.setdefault("digest", action.digest)
        return gate.decide(gate.find(action.pk, caller=person(by)), answers.Answer(verdict, **more), caller=person(by))

    return answer


@pytest.fixture
def consume(caller):
    """`consume(action)` as its agent; the digest is the current one unless another is given."""

    def collect(action, digest=None):
        return async_to_sync(gate.consume)(action.pk, digest=digest or action.digest, caller=caller)

    return collect


@pytest.fixture
def post(api):
    """`post(token, "/api/v1/…", body, **headers)`: JSON in, (status, JSON) out."""

    def send(token, path, body=None, **headers):
        content = body if isinstance(body, (bytes, str)) else json.dumps(body)
        response = api(token).post(path, content, content_type="application/json", headers=headers)
        return response.status_code, response.json()

    return send


class Answer:
    """One answer of the ASGI application, in full."""

    def __init__(self, messages):
        self.starts = [m for m in messages if m["type"] == "http.response.start"]
        self.status = self.starts[0]["status"]
        self.headers = {k.decode().lower(): v.decode() for k, v in self.starts[0]["headers"]}
        self.body = b"".join(m.get("body", b"") for m in messages if m["type"] == "http.response.body")

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def decision(self) -> tuple[str, str]:
        said = self.json["hookSpecificOutput"]
        assert said["hookEventName"] == "PreToolUse"
        return said["permissionDecision"], said["permissionDecisionReason"]


async def send_hook(
    token, body, *, path="/hooks/claude-code", method="POST", host="127.0.0.1", headers=(), gone=None, send=None
):
    """Post to the application as a server hands it over; `gone` is an event after which the client is away, `send` a
    server's way to answer."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    path, _, query = path.partition("?")
    sent = [(b"host", host.encode()), (b"content-type", b"application/json"), (b"content-length", b"%d" % len(raw))]
    sent += [(name.lower().encode(), value.encode()) for name, value in headers]
    if token:
        sent.append((b"authorization", f"Bearer {token}".encode()))
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": sent,
        "server": ("127.0.0.1", 8000),
        "client": ("127.0.0.1", 1),
    }
    messages, body_sent = [], False

    async def receive():
        nonlocal body_sent
        if not body_sent:
            body_sent = True
            return {"type": "http.request", "body": raw, "more_body": False}
        await (gone or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    async def keep(message):
        messages.append(message)
        if send:
            await send(message)

    await fail_closed(get_asgi_application())(scope, receive, keep)
    return Answer(messages)


@pytest.fixture
def hook():
    """`hook(token, event)`: one answer, the application driven as daphne drives it."""
    return lambda token, body, **more: asyncio.run(send_hook(token, body, **more))


def before(arguments=PUSH, *, tool="Bash", session="s1", call_id="toolu_1", cwd="/home/mia/repo", **more):
    """A PreToolUse event as Claude Code posts it."""
    return {
        "session_id": session,
        "transcript_path": "/home/mia/.claude/t.jsonl",
        "cwd": cwd,
        "permission_mode": "default",
        "hook_event_name": "PreToolUse",
        "tool_name": tool,
        "tool_input": arguments,
        "tool_use_id": call_id,
    } | more


def full(answer):
    """What must hold of every answer there is."""
    assert (answer.status, len(answer.starts)) == (200, 1)
    assert answer.headers["content-type"] == "application/json"
    assert int(answer.headers["content-length"]) == len(answer.body)
    assert isinstance(json.loads(answer.body), dict)
    assert answer.json
    return answer


@pytest.fixture
def workspace(team, agent):
    environment = Environment.objects.create(team=team, name="default")
    return Workspace.objects.create(
        team=team, key="repo-1", environment=environment, state="ready", created_by_agent=agent
    )
