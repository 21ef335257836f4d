"""Every verb of the table against the routes that are installed, and each with an agent that is held back.

The requests name things that are not there: a verb that is refused is refused before anything is looked up.
"""

import json
import re
import uuid
from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import ImproperlyConfigured

from approvals.actions import emergency_stop, gate, interrupts
from approvals.agent_runs.model_relay.providers import PROVIDERS
from approvals.evaluation.calls import Call
from approvals.models import Action, AgentSession, Interrupt
from approvals.protocols.e2b import wire
from client.handrail_client.mcp.tools import TOOLS
from dashboard import urls
from dashboard.database import clock
from dashboard.door import walk
from dashboard.door.markdown import in_place
from dashboard.door.mcp_tools import MCP_TOOLS
from dashboard.door.table import VERBS
from dashboard.door.verb import DOOR, GATE, RELAY, Verb
from dashboard.models import Event
from dashboard.people.tokens import make_token
from tests.approvals.conftest import before
from tests.support import CHECKOUT
from workspaces.egress.internal_api import SERVED_PATHS
from workspaces.models import Operation, Workspace

REQUESTS = {name: verb for name, verb in VERBS.items() if not name.startswith(("WS ", "POST /models/"))}
BODY = {"tool": "Bash", "arguments": {"command": "git push"}}
HELD_BACK = {"interrupted", "stopped"}


def test_the_table_has_each_verb_of_the_routes_and_no_other():
    relayed = {f"{method} /models/{{provider}}/{{path}}" for each in PROVIDERS.values() for method, _ in each.asks}
    found = {
        *walk.of_api(urls.api),
        *walk.of_views(urls.urlpatterns),
        *walk.of_sockets(urls.websocket_urlpatterns),
        *relayed,
    }
    assert found == VERBS.keys()


def test_the_mcp_tools_cause_declared_verbs_alone():
    assert {tool["name"] for tool in TOOLS} == MCP_TOOLS.keys()
    assert {verb for verbs in MCP_TOOLS.values() for verb in verbs} <= VERBS.keys()


def test_handrail_internal_serves_what_the_door_keeps():
    served = tuple(path.removeprefix("/api/v1") for path in SERVED_PATHS)
    assert served == ("/", "/hooks/", "/models/")


@pytest.mark.parametrize("missing", ["POST /workspaces/{key}/commands", "POST /hooks/{agent}", "WS /ws/live"])
def test_a_route_without_a_declaration_does_not_start(monkeypatch, missing):
    monkeypatch.setattr(walk, "VERBS", {name: verb for name, verb in VERBS.items() if name != missing})
    with pytest.raises(ImproperlyConfigured, match=re.escape(missing)):
        walk.refuse_undeclared(urls.api, urls.urlpatterns, urls.websocket_urlpatterns)


def test_a_verb_that_goes_on_says_why():
    with pytest.raises(ValueError, match="says why"):
        Verb(interrupted="", stopped="")
    with pytest.raises(ValueError, match="closed to agents"):
        Verb(agents=False)
    with pytest.raises(ValueError, match="where nothing can hold it"):
        Verb(held="medium")


def ask(client, name: str, key: str):
    """Ask for a verb, with names of things that are not there but for the workspace."""
    method, address = name.split(" ")
    address = address if address.startswith(("/aap/", "/hooks/", "/e2b/")) else f"/api/v1{address}"
    parts = {"key": key, "agent": "claude-code", "path": "plain", "n": "1", "rest": "nowhere", "port": "3000"}
    path = re.sub(r"\{(\w+)\}", lambda found: parts.get(found[1], str(uuid.uuid4())), address)
    body = BODY | ({"timeout": "10m"} if address.startswith("/aap/") else {})
    body = before() if address.startswith("/hooks/") else body
    more = {"data": body, "content_type": "application/json"} if method not in ("GET", "HEAD") else {}
    headers = {"Idempotency-Key": uuid.uuid4().hex, "E2b-Sandbox-Id": key}
    answer = getattr(client, method.lower())(path, headers=headers, **more)
    return LastFrame(async_to_sync(whole)(answer)) if answer.headers.get("Content-Type") == wire.STREAM else answer


async def whole(answer) -> bytes:
    return b"".join([piece async for piece in answer.streaming_content])


class LastFrame:
    """The answer of E2B's envd to a call that is streamed: an error is the last message, and the status is 200."""

    streaming, headers = False, {"Content-Type": "application/json"}

    def __init__(self, data: bytes):
        self._error = json.loads(data[5:])["error"]
        self.status_code = next(status for status, code in wire.CODES.items() if code == self._error["code"])

    def json(self) -> dict:
        return self._error


def code_of(answer) -> str:
    """Return the code of a refusal, in the API's form, that of the Agent Approval Protocol, or E2B's."""
    if answer.streaming or "json" not in answer.headers.get("Content-Type", ""):
        return ""
    told = answer.json()
    if not isinstance(told, dict):
        return ""
    return told.get("reason") or told.get("code") or (told.get("error") or {}).get("code", "")


def counts() -> tuple:
    return Operation.objects.count(), Action.objects.count(), Event.objects.count()


@pytest.fixture
def interrupted(agent, bob, person):
    interrupts.interrupt(agent, session="", caller=person(bob), reason="Wait.")


@pytest.fixture
def stopped(team, bob, person):
    emergency_stop.stop_everything(team, caller=person(bob))


@pytest.mark.parametrize("state", ["interrupted", "stopped"])
@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_a_verb_is_refused_as_declared(request, api, agent_token, workspace, name, state):
    request.getfixturevalue(state)
    noted, verb = counts(), REQUESTS[name]
    answer = ask(api(agent_token), name, workspace.key)
    by = getattr(verb, state)
    if not verb.agents:
        assert answer.status_code in (403, 404, 422)
        assert counts() == noted
    elif by == DOOR:
        assert (answer.status_code, code_of(answer)) == (409, state)
        assert counts() == noted
    elif by == "":
        assert code_of(answer) not in HELD_BACK


@pytest.mark.parametrize("state", ["interrupted", "stopped"])
@pytest.mark.parametrize(
    "name", sorted(name for name, verb in REQUESTS.items() if verb.runs and verb.interrupted == DOOR)
)
def test_a_verb_is_refused_to_programs_of_a_run_as_well(request, api, agent, workspace, name, state):
    request.getfixturevalue(state)
    inside, noted = make_token(workspace.team, agent=agent, workspace=workspace, for_run=True), counts()
    answer = ask(api(inside), name, workspace.key)
    assert (answer.status_code, code_of(answer)) == (409, state)
    assert counts()[:2] == noted[:2]


@pytest.mark.parametrize("name", sorted(name for name, verb in REQUESTS.items() if not verb.runs))
def test_a_verb_that_is_closed_to_programs_of_a_run_does_nothing(api, agent, workspace, name):
    inside = make_token(workspace.team, agent=agent, workspace=workspace, for_run=True)
    noted = counts()
    answer = ask(api(inside), name, workspace.key)
    assert answer.status_code in (400, 403, 404, 422)
    assert counts() == noted


@pytest.mark.parametrize("state", ["interrupted", "stopped"])
@pytest.mark.parametrize("name", ["POST /actions", "POST /aap/v1/requests"])
def test_the_gate_refuses_a_new_call(request, api, agent_token, workspace, name, state):
    request.getfixturevalue(state)
    assert ask(api(agent_token), name, workspace.key).status_code == 409
    assert not Action.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("state", "words"), [("interrupted", "Wait."), ("stopped", "Stopped by a person")])
def test_a_hook_denies_a_new_call_in_its_own_form(request, hook, agent_token, state, words):
    request.getfixturevalue(state)
    decision, reason = hook(agent_token, before()).decision
    assert decision == "deny"
    assert words in reason
    assert not Action.objects.exists()


@pytest.mark.parametrize("state", ["interrupted", "stopped"])
def test_an_approval_is_not_used_while_its_agent_is_held_back(request, api, agent_token, caller, decide, bob, state):
    action = gate.submit(Call(tool="Bash", arguments={"command": "git push"}), caller=caller)[0]
    decide(action, by=bob)
    Action.objects.filter(pk=action.pk).update(status="pending")  # so that the order itself ends nothing
    request.getfixturevalue(state)
    Action.objects.filter(pk=action.pk).update(status="approved", ended_at=None)
    path = f"/api/v1/actions/{action.pk}/consume"
    answer = api(agent_token).post(path, {"digest": action.digest}, content_type="application/json")
    assert (answer.status_code, code_of(answer)) == (409, state)
    action.refresh_from_db()
    assert (action.status, action.consumed_at) == ("approved", None)


@pytest.mark.parametrize("state", ["interrupted", "stopped"])
def test_a_call_that_waited_for_its_user_does_not_go_on(request, api, agent_token, caller, decide, consume, bob, state):
    action = gate.submit(Call(tool="Bash", arguments={"command": "git push"}), caller=caller)[0]
    consume(decide(action, by=bob))
    path = f"/api/v1/actions/{action.pk}/continue"
    assert api(agent_token).post(path).status_code == 200
    request.getfixturevalue(state)
    noted = counts()
    answer = api(agent_token).post(path)
    assert (answer.status_code, code_of(answer)) == (409, state)
    assert counts() == noted
    action.refresh_from_db()
    assert action.status == "running"


def test_a_call_that_is_not_running_does_not_go_on(api, agent_token, other_agent_token, caller, decide, bob):
    action = gate.submit(Call(tool="Bash", arguments={"command": "git push"}), caller=caller)[0]
    path = f"/api/v1/actions/{action.pk}/continue"
    for _ in range(2):
        answer = api(agent_token).post(path)
        assert (answer.status_code, code_of(answer)) == (409, "not_running")
        action = gate.find(action.pk, caller=caller)
        if action.status == "pending":
            decide(action, by=bob)
    assert api(other_agent_token).post(path).status_code == 404


class TestOneSession:
    """The interrupt of one session, and requests that name none."""

    @pytest.fixture
    def asked(self, caller, workspace, agent, bob, person):
        call = Call(tool="Bash", arguments={"command": "git push"}, session="s", workspace=workspace)
        gate.submit(call, caller=caller)
        interrupts.interrupt(agent, session="s", caller=person(bob))

    def refuses(self, api, token, key) -> bool:
        answer = ask(api(token), "POST /workspaces/{key}/pause", key)
        return (answer.status_code, code_of(answer)) == (409, "interrupted")

    def test_an_interrupt_of_a_session_holds_in_its_workspace(self, asked, api, agent_token, workspace):
        assert self.refuses(api, agent_token, workspace.key)

    def test_an_interrupt_of_a_session_holds_for_the_programs_of_its_workspace(self, asked, api, agent, workspace):
        inside = make_token(workspace.team, agent=agent, workspace=workspace, for_run=True)
        assert self.refuses(api, inside, workspace.key)

    def test_an_interrupt_of_a_session_leaves_other_workspaces_alone(self, asked, api, agent_token, workspace):
        assert not self.refuses(api, agent_token, "another")

    def test_an_interrupt_of_a_session_without_a_workspace_holds_everywhere(
        self, api, agent_token, agent, bob, person, workspace
    ):
        interrupts.interrupt(agent, session="of a laptop", caller=person(bob))
        assert self.refuses(api, agent_token, workspace.key)

    @pytest.fixture
    def submits(self, post, agent_token, workspace):
        """`submits("name")`: whether the agent's call in this session is taken."""

        def submit(session, **more) -> bool:
            wish = BODY | {"arguments": {"command": "pwd"}, "session": session, "workspace": workspace.key, **more}
            status, told = post(agent_token, "/api/v1/actions", wish)
            assert status in (200, 201) or (status, told.get("code")) == (409, "interrupted"), told
            return status != 409

        return submit

    @pytest.mark.parametrize("session", ["s", "S", "s ", " s", "s.", "another", "\u017f", "api", ""])
    def test_an_interrupt_of_a_session_holds_for_verbs_it_never_used(self, asked, submits, session):
        noted = Action.objects.count()
        assert not submits(session)
        assert Action.objects.count() == noted
        Interrupt.objects.update(lifted_at=clock.now())
        assert submits(session)

    def test_sessions_that_were_known_go_on(self, submits, caller, workspace, agent, bob, person):
        assert submits("earlier")
        of_hook = {"team": agent.team, "agent": agent, "dialect": "claude-code", "last_at": clock.now()}
        AgentSession.objects.create(native_id="began", started_at=clock.now(), **of_hook)
        gate.submit(Call("Bash", {"command": "git push"}, session="s", workspace=workspace), caller=caller)
        interrupts.interrupt(agent, session="s", caller=person(bob))
        AgentSession.objects.create(native_id="later", started_at=clock.now(), **of_hook)
        assert [submits(name) for name in ("earlier", "began", "later", "s")] == [True, True, False, False]

    def test_an_unknown_name_goes_on_where_the_session_did_not_work(self, asked, submits, workspace):
        known = {"team": workspace.team, "environment": workspace.environment, "state": "ready"}
        elsewhere = Workspace.objects.create(key="elsewhere", created_by_agent=workspace.created_by_agent, **known)
        assert submits("another", workspace=elsewhere.key)
        assert not submits("another", workspace=None)

    def test_an_interrupt_that_is_over_holds_nowhere(self, asked, api, agent_token, workspace):
        Interrupt.objects.update(until=clock.now() - timedelta(seconds=1))
        assert not self.refuses(api, agent_token, workspace.key)


def test_door_gate_or_relay_refuses_each_closed_verb():
    refused_by = {who for verb in VERBS.values() for who in (verb.interrupted, verb.stopped)}
    assert refused_by == {DOOR, GATE, RELAY, ""}


def test_the_page_has_the_table_of_today():
    page = (CHECKOUT / "docs" / "security.md").read_text()
    assert page == in_place(page)
    assert all(f"`{name}`" in page for name in VERBS)
