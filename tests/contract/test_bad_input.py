"""Bad input: each gets a clear problem, or a state with its reason in words, and changes nothing."""

import json
import re
import socket
import uuid

import pytest

from tests.contract.conftest import PROBLEM, Client, as_promised

PUSH = {"tool": "Bash", "arguments": {"command": "git push origin main"}}
DENIED = re.compile(rb"HTTP/1\.[01] 200 .*", re.S)


@pytest.fixture
def unchanged(agent):
    """Asserts afterwards that no action was made or ended meanwhile."""

    def actions():
        rows = agent.get("/actions?limit=200").json["actions"]
        return [(row["id"], row["status"], row["digest"]) for row in rows]

    before = actions()
    yield
    assert actions() == before


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Bearer hr_wrong", "Basic aHI6aHI=", "Bearer \xff", "hr_wrong"]
)
def test_a_wrong_or_missing_token(product, header):
    answer = product.call(
        "POST",
        "/api/v1/actions",
        "",
        PUSH,
        headers={"Authorization": header} if header else {},
    )
    assert (answer.status, as_promised(answer.json, PROBLEM)) == (401, PROBLEM)
    assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_a_revoked_token(agent, product):
    token = product.agent_token("short-lived", team="contract")
    assert product.get("/api/v1/me", token).status == 200
    code = "from dashboard.models import Token; from dashboard.database import clock\n"
    code += "from dashboard.people.tokens import find_token\n"
    code += f"t = find_token({token!r}); t.revoked_at = clock.now(); t.save()"
    product.shell(code)
    assert product.get("/api/v1/me", token).status == 401


def test_the_api_refuses_a_session_cookie(product):
    assert product.get("/api/v1/me", headers={"Cookie": "handrail=x; sessionid=x"}).status == 401


# What stands in a body.


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"not json", 400),
        (b'{"tool": "Bash", "arguments": {"command": "git push"}', 400),
        (b'{"tool": "Bash", "arguments": {"command": "\xff"}}', 400),
        (b'{"tool": "Bash", "tool": "Bash", "arguments": {"command": "git push"}}', 422),
        (b'{"tool": "Bash", "arguments": {"command": "git push", "command": "ls"}}', 422),
        (b'{"tool": "Bash", "arguments": {"command": "\\ud800"}}', 422),
        (b'{"tool": "Bash", "arguments": {"\\udfff": "git push"}}', 422),
        (b'{"tool": "Bash", "arguments": {"n": NaN}}', 422),
        (b'{"tool": "Bash", "arguments": {"n": Infinity}}', 422),
        (b'{"tool": "Bash", "arguments": {"n": 1e999}}', 422),
        (b'{"tool": "Bash", "arguments": {"n": -1e400}}', 422),
        (b'{"tool": "Bash", "arguments": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001, 422),
        (b"[" * 200_000, 422),
        (b"[]", 422),
        (b'"text"', 422),
        (b"null", 422),
        (b"{}", 422),
        (b'{"tool": "Bash", "arguments": []}', 422),
        (b'{"tool": "Bash", "arguments": "git push"}', 422),
        (b'{"tool": "Bash", "arguments": null}', 422),
        (b'{"tool": 7, "arguments": {}}', 422),
        (b'{"tool": "", "arguments": {}}', 422),
        (b'{"tool": "   ", "arguments": {}}', 422),
        (b'{"tool": "a\\u0000b", "arguments": {}}', 422),
        (b'{"tool": "' + b"x" * 201 + b'", "arguments": {}}', 422),
        (b'{"tool": "Bash", "arguments": {"command": "a\\u0000b"}}', 422),
        (b'{"tool": "Bash", "arguments": {}, "mode": "maybe"}', 422),
        (b'{"tool": "Bash", "arguments": {}, "approved": true}', 422),
        (b'{"tool": "Bash", "arguments": {}, "expires_in_s": 0}', 422),
        (b'{"tool": "Bash", "arguments": {}, "expires_in_s": 999999999}', 422),
        (b'{"tool": "Bash", "arguments": {}, "expires_in_s": 1.5}', 422),
        (b'{"tool": "Bash", "arguments": {}, "cwd": "relative"}', 422),
        (b'{"tool": "Bash", "arguments": {}, "cwd": "/a\\u0000b"}', 422),
        (b'{"tool": "Bash", "arguments": {}, "workspace": "../x"}', 404),
        (b'{"tool": "Bash", "arguments": {"command": "' + b"x" * 10_000_000 + b'"}}', 413),
    ],
    ids=lambda value: str(value[:60]) if isinstance(value, bytes) else None,
)
def test_an_action_that_cannot_be_taken(agent, unchanged, body, status):
    answer = agent.call("POST", "/actions", body, status)
    assert answer.json["detail"].strip()


def test_an_unknown_tool_is_asked_about(agent):
    action = agent.post("/actions", {"tool": "LaunchRocket", "arguments": {"at": 3}}, 201).json
    assert (action["status"], action["tier"]) == ("pending", "high")
    assert action["reasons"][0].startswith("Needs approval: ")
    agent.post(f"/actions/{action['id']}/cancel")


@pytest.mark.parametrize("key", ["", "k" * 201])
def test_an_invalid_idempotency_key_is_refused(agent, unchanged, key):
    answer = agent.product.call(
        "POST",
        "/api/v1/actions",
        agent.token,
        PUSH,
        headers={"Idempotency-Key": key, "Content-Type": "application/json"},
    )
    assert answer.status == 422


def test_another_agents_idempotency_key_is_its_own(everybody):
    key = uuid.uuid4().hex
    first = everybody["contract agent"].post("/actions", PUSH, 201, key=key).json
    second = everybody["contract other-agent"].post("/actions", PUSH, 201, key=key).json
    assert first["id"] != second["id"]
    for client, action in ((everybody["contract agent"], first), (everybody["contract other-agent"], second)):
        client.post(f"/actions/{action['id']}/cancel")


# Places.


@pytest.mark.parametrize(
    "path", ["../x", "..%2fx", "%2e%2e/x", "/etc/passwd", "%2fetc%2fpasswd", "a/../../x", "a%00b", "x" * 5000]
)
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_a_path_outside(agent, place, method, path):
    answer = agent.product.call(
        method, f"/api/v1/workspaces/{place}/files/{path}", agent.token, b"x" if method == "PUT" else None
    )
    assert answer.status in (404, 422), answer.body
    assert as_promised(answer.json, PROBLEM) == PROBLEM


@pytest.mark.parametrize(
    ("path", "outside"),
    [("/etc/passwd", True), ("../x", True), ("/workspace/../etc/x", True), ("a\0b", True), ("", True)],
)
def test_a_brokered_file_outside(agent, place, unchanged, path, outside):
    body = {"tool": "Write", "arguments": {"file_path": path, "content": "x"}, "mode": "broker", "workspace": place}
    agent.post("/actions", body, 422)


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"source": {"git": "{sources}/nothing-here"}}, "no"),
        ({"source": {"git": "/etc"}}, "HANDRAIL_LOCAL_SOURCES"),
        ({"source": {"git": "ext::sh -c id"}}, ""),
        ({"source": {"git": "--upload-pack=id"}}, ""),
        ({"source": {"git": "http://169.254.169.254/x"}}, ""),
        ({"source": {"git": 7}}, ""),
        ({"key": "../up"}, ""),
        ({"key": "UP"}, ""),
        ({"key": ""}, ""),
        ({"driver": "no-such"}, ""),
        ({"labels": {"a b": "c"}}, ""),
        ({"labels": ["a"]}, ""),
        ({"setup": 7}, ""),
        ({"colour": "red"}, "colour"),
    ],
    ids=str,
)
def test_a_workspace_that_cannot_be(agent, wish, words):
    key = f"bad-{uuid.uuid4().hex[:8]}"
    text = json.dumps({"key": key} | wish).replace("{sources}", str(agent.product.sources))
    answer = agent.product.post("/api/v1/workspaces", agent.token, json.loads(text))
    if answer.status == 201:  # a repository is looked at by the runner, which then says what is wrong with it
        failed = agent.settled(key)
        assert failed["state"] == "failed"
        assert failed["reason"].strip()
        return
    assert (answer.status, as_promised(answer.json, PROBLEM)) == (422, PROBLEM)
    assert words in answer.json["detail"]
    agent.get(f"/workspaces/{key}", 404)


def test_a_setup_script_that_fails_is_a_state_with_its_reason(agent):
    key = f"bad-{uuid.uuid4().hex[:8]}"
    agent.post("/workspaces", {"key": key, "setup": "echo cannot find the compiler; exit 9"}, 201)
    made = agent.settled(key)
    assert made["state"] == "failed"
    assert "9" in made["reason"]
    assert "cannot find the compiler" in made["reason"]
    agent.post(f"/workspaces/{key}/commands", {"command": "true"}, 409)


def test_a_setup_script_that_hangs_is_a_state_with_its_reason(new_product):
    hasty = new_product(HANDRAIL_SETUP_SECONDS="2")
    hasty.start()
    agent = Client(hasty, hasty.agent_token())
    agent.post("/workspaces", {"key": "hangs", "setup": "echo begun; sleep 1000"}, 201)
    made = agent.settled("hangs")
    assert made["state"] == "failed"
    assert "longer than" in made["reason"]


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("path", ["/api/v1/nothing", "/api/v1/actions/x/y", "/api/v1/workspaces/none/pause"])
def test_an_unknown_address_is_404(agent, method, path):
    answer = agent.product.call(method, path, agent.token, {} if method == "POST" else None)
    assert answer.status in (404, 405), answer.body


# The hook: whatever is wrong, a full deny.

BEFORE = {
    "session_id": "s",
    "cwd": "/repo",
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "git push"},
    "tool_use_id": "t",
}


def hook(product, token, body: bytes, *, method=b"POST", path=b"/hooks/claude-code", host=b"127.0.0.1", length=None):
    """The raw answer of one connection."""
    head = [b"%s %s HTTP/1.1" % (method, path), b"Host: %s" % host, b"Connection: close"]
    head += [b"Content-Type: application/json", b"Content-Length: %d" % (len(body) if length is None else length)]
    if token:
        head.append(b"Authorization: Bearer " + token.encode())
    with socket.create_connection(("127.0.0.1", product.port), timeout=30) as connection:
        connection.sendall(b"\r\n".join(head) + b"\r\n\r\n" + body)
        connection.shutdown(socket.SHUT_WR) if length is not None else None
        answer = b""
        while part := connection.recv(65536):
            answer += part
    return answer


def reason_of_a_full_deny(answer: bytes) -> str:
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = {line.split(":")[0].lower(): line.split(":", 1)[1].strip() for line in lines[1:]}
    assert lines[0].startswith("HTTP/1.1 200")
    assert headers["content-length"] == str(len(body))
    said = json.loads(body)["hookSpecificOutput"]
    assert (said["hookEventName"], said["permissionDecision"]) == ("PreToolUse", "deny")
    return said["permissionDecisionReason"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{}",
        b"[]",
        b"null",
        b"\xff\xfe",
        json.dumps(BEFORE | {"hook_event_name": ""}).encode(),
        json.dumps(BEFORE | {"hook_event_name": None}).encode(),
        json.dumps(BEFORE | {"session_id": ""}).encode(),
        json.dumps(BEFORE | {"session_id": "s" * 201}).encode(),
        json.dumps(BEFORE | {"tool_name": None}).encode(),
        json.dumps(BEFORE | {"tool_input": "git push"}).encode(),
        json.dumps(BEFORE | {"tool_input": None}).encode(),
        json.dumps(BEFORE | {"cwd": 7}).encode(),
        json.dumps(BEFORE | {"tool_input": {"command": "\ud800"}}).encode(),
        json.dumps(BEFORE)[:-1].encode() + b', "tool_name": "Bash"}',
        json.dumps(BEFORE | {"tool_input": {"command": "x" * 2_000_000}}).encode(),
        json.dumps(BEFORE | {"tool_input": {"command": "x" * 11_000_000}}).encode(),
        json.dumps(BEFORE).encode()[:-1] + b"\xff}",
    ],
    ids=lambda body: f"{len(body)} {body[-50:]!r}",
)
def test_a_hook_that_cannot_be_read_is_denied(agent, unchanged, body):
    assert reason_of_a_full_deny(hook(agent.product, agent.token, body)).strip()


def test_a_hook_without_a_good_token_is_denied(agent, reviewer, unchanged):
    body = json.dumps(BEFORE).encode()
    assert "This token is invalid" in reason_of_a_full_deny(hook(agent.product, "", body))
    assert "This token is invalid" in reason_of_a_full_deny(hook(agent.product, "hr_wrong", body))
    assert "a person's" in reason_of_a_full_deny(hook(agent.product, reviewer.token, body))


def test_a_hook_at_another_address_method_or_host_is_denied(agent, unchanged):
    body = json.dumps(BEFORE).encode()
    for other in ({"path": b"/hooks/claude"}, {"path": b"/hooks/"}, {"method": b"PUT"}, {"host": b"evil.example.org"}):
        assert reason_of_a_full_deny(hook(agent.product, agent.token, body, **other)).strip()
    assert reason_of_a_full_deny(hook(agent.product, agent.token, body, path=b"/hooks/claude-code?workspace=none"))


def test_a_hook_whose_body_is_cut_gets_a_deny_or_nothing(agent, unchanged):
    body = json.dumps(BEFORE).encode()
    answer = hook(agent.product, agent.token, body[:40], length=len(body))
    assert answer == b"" or reason_of_a_full_deny(answer)
