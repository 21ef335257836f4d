"""The guide's state and steps over the API, and what a provider answers to a key that is tried."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dashboard.models import Actor, Event
from workspaces import secrets
from workspaces.models import Operation

LEAD = Actor.system("test")
KEY = "sk-ant-api03-0123456789-abcdefgh"


@pytest.fixture
def api(client, token_of):
    """`api(person, method, path, body)`: (status, JSON)."""

    def ask(person, method, path, body=None):
        headers = {"Authorization": f"Bearer {token_of(person)}"}
        how = {"data": json.dumps(body), "content_type": "application/json"} if method == "post" else {}
        answer = getattr(client, method)(f"/api/v1/agent-programs{path}", headers=headers, **how)
        return answer.status_code, answer.json()

    return ask


@pytest.fixture
def provider(settings):
    """A provider on loopback: `says` is (status, body) of its answer, `heard` what it was sent."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.heard.append((self.path, self.headers["x-api-key"], self.headers["anthropic-version"], body))
            status, said = server.says
            self.send_response(status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.heard, server.says = [], (200, b"{}")
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    settings.HANDRAIL_MODEL_UPSTREAMS = {"anthropic": f"http://127.0.0.1:{server.server_port}"}
    yield server
    server.shutdown()
    server.server_close()


def test_the_state_of_each_agent_is_read_from_what_is_there(api, lena, workspace, team):
    status, found = api(lena, "get", "")
    assert status == 200
    assert [each["name"] for each in found["programs"]] == ["claude-code", "codex", "opencode"]
    claude = found["programs"][0]
    assert claude["installed"] == ["1.2.3"]
    assert claude["key"] == {"secret": "A_KEY", "state": "missing"}
    assert (claude["environments"], claude["model"]) == (["default"], "claude-x")
    assert claude["steps"] == {"program": True, "key": False, "environment": True, "trial": False}
    assert claude["next_step"] == "key"
    secrets.save(team, "A_KEY", "models", KEY, by=LEAD)
    assert api(lena, "get", "/claude-code")[1]["next_step"] == "trial"
    assert api(lena, "get", "/gemini")[0] == 404


def test_the_installation_is_begun_and_followed(api, lena, bob, home):
    assert api(bob, "post", "/codex/install")[0] == 403
    status, found = api(lena, "post", "/codex/install")
    assert (status, found["install"]["phase"], found["install"]["outcome"]) == (202, "due", None)
    assert Operation.objects.get(kind="install_agent").args == {"program": f"codex@{found['version']}"}
    assert api(lena, "post", "/opencode/install")[0] == 409


@pytest.fixture
def home(settings, tmp_path, team):
    settings.HANDRAIL_HOME = tmp_path
    return tmp_path


def test_a_trial_is_begun_in_an_environment_that_has_the_agent(api, lena, bob, workspace):
    assert api(bob, "post", "/claude-code/trials", {})[0] == 403
    assert api(lena, "post", "/claude-code/trials", {"environment": "nowhere"})[0] == 404
    assert api(lena, "post", "/opencode/trials", {})[0] == 409
    status, trial = api(lena, "post", "/claude-code/trials", {})
    assert (status, trial["state"], trial["program"], trial["environment"]) == (
        201,
        "running",
        "claude-code@1.2.3",
        "default",
    )
    assert api(lena, "get", "/claude-code")[1]["trial"]["id"] == trial["id"]


@pytest.mark.parametrize(
    ("says", "words"),
    [
        ((200, b"{}"), "Anthropic answered: the key works, and claude-x can be asked."),
        (
            (401, b'{"error": {"type": "authentication_error", "message": "invalid x-api-key"}}'),
            "Anthropic answered 401: invalid x-api-key.",
        ),
        ((404, b'{"error": {"message": "model: claude-x"}}'), "Anthropic answered 404: model: claude-x."),
        ((529, b"<html>"), "Anthropic answered 529."),
        ((500, b'["x"]'), "Anthropic answered 500."),
    ],
)
def test_what_the_provider_answers_to_the_key_is_said(api, lena, workspace, team, provider, says, words):
    secrets.save(team, "A_KEY", "models", KEY, by=LEAD)
    provider.says = says
    status, answer = api(lena, "post", "/claude-code/try-key")
    assert (status, answer) == (200, {"status": says[0], "words": words})
    [(path, key, version, body)] = provider.heard
    assert (path, key, body["model"], body["max_tokens"]) == ("/v1/messages", KEY, "claude-x", 1)
    assert version
    event = Event.objects.get(verb="agent_key.tried")
    assert event.data["status"] == says[0]
    assert KEY not in json.dumps(event.data)


def test_a_provider_that_is_not_reached_and_a_missing_key_are_said(api, lena, workspace, team, settings):
    settings.HANDRAIL_MODEL_UPSTREAMS = {"anthropic": "http://127.0.0.1:9"}
    assert api(lena, "post", "/claude-code/try-key")[0] == 409
    secrets.save(team, "A_KEY", "models", KEY, by=LEAD)
    status, answer = api(lena, "post", "/claude-code/try-key")
    assert (status, answer["status"]) == (200, None)
    assert answer["words"].startswith("Anthropic was not reached: ")
