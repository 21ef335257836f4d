"""The model relay from outside: a run's token, fixed addresses, the environment's models, and the budget."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.support.product import Product
from tests.support.waiting import until

KEY = "key-of-the-team-0123456789"
RUN = """
import json
from dashboard.database import clock
from dashboard.models import Actor, Team
from approvals.agent_runs import turns
from approvals.agent_runs.model_relay import accounts
from approvals.models import AgentRun
from dashboard.people.tokens import sha256
from workspaces import secrets
from workspaces.models import Runner, Workspace
from workspaces.services import run_tokens
place = Workspace.objects.get(key={key!r})
secrets.save(place.team, "A_KEY", "models", {secret!r}, by=Actor.system("tests"), replace=True)
environment = place.environment
environment.model_access = {{"anthropic": {{"secret": "A_KEY", "models": ["claude-*"]}}}}
environment.save()
AgentRun.objects.filter(workspace=place).delete()
# Of another host, so that the runner here does not look after a run that has no command.
place.runner = Runner.objects.get_or_create(host="elsewhere")[0]
place.save(update_fields=["runner"])
now = clock.now()
run = AgentRun(team=place.team, workspace=place, agent=run_tokens.agent_of(place), task="x")
run.program = "claude-code@1.2.3"
run.model, run.state, run.created_at, run.changed_at, run.budget_from = "claude-x", "working", now, now, now
for name, value in {budget!r}.items():
    setattr(run, name, value)
token = accounts.token_of(run)
run.token_sha256 = sha256(token)
run.save()
turns.add(run, "task", "x")
print(json.dumps({{"id": str(run.pk), "token": token}}))
"""
SHOWN = """
import json
from approvals.models import AgentRun
run = AgentRun.objects.get(pk={id!r})
calls = [[c.status, c.tokens_in, c.tokens_out, c.tokens_cached, c.is_estimate] for c in run.model_calls.order_by("at")]
print(json.dumps({{"met": run.budget_met, "in": run.tokens_in, "out": run.tokens_out, "calls": calls}}))
"""
END = "from approvals.models import AgentRun; AgentRun.objects.filter(pk={id!r}).update(state='done')"
STOP = (
    "from dashboard.database import clock; from approvals.models import AgentTurn;"
    "AgentTurn.objects.filter(run={id!r}).update(asked_to_end_at=clock.now())"
)
USAGE = {"input_tokens": 7, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 50, "output_tokens": 1}


class Provider:
    """What the relay takes for Anthropic: it keeps what came, and answers as `mode` says."""

    def __init__(self):
        self.came, self.mode, self.goes_on = [], "stream", threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()

    def _handler(self):
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                provider.came.append((self.path, dict(self.headers.items()), body))
                getattr(self, provider.mode)()

            def stream(self):
                start = {"type": "message_start", "message": {"usage": USAGE}}
                end = {"type": "message_delta", "usage": {"output_tokens": 20}}
                self._answer("text/event-stream", "".join(f"data: {json.dumps(each)}\n\n" for each in (start, end)))

            def whole(self):
                self._answer("application/json", json.dumps({"usage": USAGE}))

            def silent(self):
                self._answer("application/json", "{}")

            def error(self):
                self._answer("application/json", '{"error": {}}', 529)

            def cut(self):
                self.send_response(200)
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.wfile.write(b"half")

            def slow(self):
                provider.goes_on.wait(30)
                self.stream()

            def _answer(self, kind: str, text: str, status: int = 200):
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Set-Cookie", "a=b")
                self.send_header("openai-organization", "whose")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_):
                pass

        return Handler


@pytest.fixture(scope="module")
def provider():
    made = Provider()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def relay(provider, tmp_path_factory):
    """The product, with one workspace."""
    made = Product(tmp_path_factory.mktemp("relay") / "home", HANDRAIL_MODEL_UPSTREAMS=f"anthropic={provider.url}")
    made.start()
    lead = made.person_token("lena", "lead")
    made.key = made.post("/api/v1/workspaces", lead, {"key": "relayed"}).json["key"]
    made.settled("/api/v1/workspaces/relayed", lead)
    yield made
    made.clean_up()


@pytest.fixture
def run(relay, provider):
    """`run(budget_tokens=…)`: an open run, {id, token}; the one before in its workspace is deleted."""
    provider.mode, provider.came = "stream", []

    def make(key: str = "", **budget):
        return json.loads(relay.shell(RUN.format(key=key or relay.key, secret=KEY, budget=budget)))

    return make


def ask(relay, run: dict, path="/models/anthropic/v1/messages", token: str | None = None, headers=(), **more):
    body = {"model": "claude-x", "max_tokens": 100, "messages": [{"role": "user", "content": "hello"}]} | more
    return relay.post(path, run["token"] if token is None else token, body, headers=headers)


def shown(relay, run: dict) -> dict:
    return json.loads(relay.shell(SHOWN.format(id=run["id"])))


def test_the_key_is_put_in_and_little_else_is_passed_on(relay, provider, run):
    made = run()
    sent = {"Cookie": "a=b", "X-Api-Key": "mine", "Anthropic-Version": "2023-06-01", "X-Forwarded-For": "1.2.3.4"}
    answer = ask(relay, made, headers=sent.items())
    assert answer.status == 200
    path, headers, body = provider.came[0]
    given = {name.lower(): value for name, value in headers.items()}
    assert (path, given["x-api-key"], given["anthropic-version"]) == ("/v1/messages", KEY, "2023-06-01")
    assert {"cookie", "authorization", "x-forwarded-for"} & set(given) == set()
    assert body["messages"] == [{"role": "user", "content": "hello"}]
    assert {name.lower() for name in answer.headers} & {"set-cookie", "openai-organization"} == set()
    assert KEY not in answer.text
    assert shown(relay, made) == {"met": "", "in": 10, "out": 20, "calls": [[200, 10, 20, 50, False]]}


def test_a_whole_response_is_counted_and_a_silent_one_as_it_was_reserved(relay, provider, run):
    made = run()
    for provider.mode in ("whole", "silent", "error"):
        ask(relay, made)
    calls = [[200, 10, 1, 50, False], [200, 0, 100, 0, True], [529, 0, 0, 0, False]]
    assert shown(relay, made)["calls"] == calls


def test_a_response_that_is_cut_off_reaches_the_agent_as_cut_off(relay, provider, run):
    made = run()
    provider.mode = "cut"
    with pytest.raises(Exception, match=r"(?i)incomplete|reset|closed|remote end"):
        ask(relay, made)
    assert until(lambda: shown(relay, made)["calls"] == [[200, 0, 100, 0, True]])


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/models/anthropic/v1/messages/batches", 404),
        ("/models/anthropic/v1/files", 404),
        ("/models/anthropic/v1/messages/../files", 404),
        ("/models/anthropic/v1/messages%2fbatches", 404),
        ("/models/openai/v1/responses", 403),  # the environment gives none of it
        ("/models/nobody/v1/messages", 404),
        ("/models/", 404),
    ],
)
def test_nothing_but_the_listed_addresses_is_served(relay, provider, run, path, status):
    assert ask(relay, run(), path).status == status
    assert provider.came == []


def test_other_tokens_models_and_bodies_are_refused(relay, provider, run):
    made = run()
    others = ("", "hr_wrong", relay.person_token("lena", "lead"), relay.agent_token())
    assert [ask(relay, made, token=token).status for token in others] == [401] * 4
    assert ask(relay, made, model="gpt-5").status == 403
    search = {"type": "web_search_20250305", "name": "web_search"}
    assert ask(relay, made, tools=[search]).status == 400
    assert relay.post("/models/anthropic/v1/messages", made["token"], b'{"model": 1, "model": 2}').status == 400
    assert provider.came == []
    # The token is good for the relay alone.
    assert relay.get("/api/v1/workspaces", made["token"]).status == 401


def test_a_run_that_has_ended_or_whose_turn_a_person_ends_asks_no_more(relay, provider, run):
    made = run()
    relay.shell(STOP.format(id=made["id"]))
    assert ask(relay, made).status == 403
    made = run()
    relay.shell(END.format(id=made["id"]))
    assert ask(relay, made).status == 401
    assert provider.came == []


def test_the_limit_of_an_answer_is_lowered_to_what_is_left_and_a_met_budget_refuses(relay, provider, run):
    made = run(budget_tokens=1500)
    assert ask(relay, made, max_tokens=32_000, thinking={"type": "enabled", "budget_tokens": 9000}).status == 200
    body = provider.came[0][2]
    assert (body["max_tokens"], body["thinking"]) == (1500, {"type": "disabled"})
    for _ in range(16):  # 30 tokens each
        ask(relay, made)
    refused = ask(relay, made)
    assert refused.status == 403
    assert refused.json["error"]["type"] == "permission_error"
    assert shown(relay, made)["met"] == "1,500 tokens"


def test_an_answer_without_a_limit_gets_what_is_left(relay, provider, run):
    assert ask(relay, run(budget_tokens=1500), max_tokens=None).status == 200
    assert provider.came[0][2]["max_tokens"] == 1500


def test_requests_at_the_same_time_cannot_exceed_the_budget_together(relay, provider, run):
    made = run(budget_tokens=3000)
    provider.mode = "slow"
    provider.goes_on.clear()
    statuses = []
    askers = [
        threading.Thread(target=lambda: statuses.append(ask(relay, made, max_tokens=2000).status)) for _ in range(4)
    ]
    for asker in askers:
        asker.start()
    until(lambda: len(statuses) == 3)
    assert statuses == [403] * 3
    provider.goes_on.set()
    for asker in askers:
        asker.join()
    assert sorted(statuses) == [200, 403, 403, 403]


@pytest.fixture
def team_limit(relay):
    """`team_limit(3000)`: a limit of so many tokens more this month, for all runs of the team."""
    admin, at = relay.person_token("ada", "admin"), "/api/v1/measures/limits/agent_tokens"

    def put(limit) -> list:
        answer = relay.call("PUT", at, admin, {"limit": limit})
        assert answer.status == 200, answer.text
        return answer.json["limits"]

    yield lambda more: put(int(put(10**12)[0]["used"]) + more)
    put(None)


def test_a_limit_of_the_team_holds_for_all_of_its_runs_together(relay, provider, run, team_limit):
    lead = relay.person_token("lena", "lead")
    other = relay.post("/api/v1/workspaces", lead, {"key": "other"}).json["key"]
    relay.settled("/api/v1/workspaces/other", lead)
    first, second = run(), run(other)
    team_limit(3000)
    provider.mode = "slow"
    provider.goes_on.clear()
    statuses = []
    asker = threading.Thread(target=lambda: statuses.append(ask(relay, first, max_tokens=2000).status))
    asker.start()
    until(lambda: len(provider.came) == 1)
    refused = ask(relay, second, max_tokens=2000)
    assert (refused.status, "tokens of started agents" in refused.text) == (403, True)
    provider.goes_on.set()
    asker.join()
    assert statuses == [200]
    assert shown(relay, second)["met"].startswith("the team's monthly limit of ")

    provider.mode = "stream"
    assert ask(relay, first, max_tokens=32_000).status == 200
    assert provider.came[-1][2]["max_tokens"] < 3000
    team_limit(1)
    assert ask(relay, first).status == 403
    assert relay.post("/api/v1/measures/limits/agent_tokens/lift", lead).status == 200
    assert ask(relay, run(other)).status == 200


def test_large_bodies_are_for_runs_alone(relay, provider, run):
    made = run()
    large = [{"role": "user", "content": "x" * (3 << 20)}]
    assert ask(relay, made, messages=large).status == 200
    assert ask(relay, made, token="hr_wrong", messages=large).status == 413
