"""Cursor's hooks: the events as https://cursor.com/docs/hooks has them, and the hook's line as Cursor runs it."""

import json
import re
import subprocess

import pytest

from approvals.agents import dialects
from approvals.agents.dialect import DENY, Reply
from approvals.agents.hook_programs import hook_command
from approvals.evaluation.judge import content
from approvals.models import Action, AgentSession, Message, Status
from tests.approvals.agents.real_agents import FOLDER, SESSION, before
from tests.approvals.conftest import LIST, PUSH, full
from tests.approvals.hooks.test_command_hook import ScriptedServer, envelope, http

CURSOR = dialects.find("cursor")
COMMON = {
    "conversation_id": SESSION,
    "generation_id": "g1",
    "model": "m",
    "cursor_version": "2026.10.01",
    "workspace_roots": [FOLDER],
    "user_email": None,
}
GITHUB = {"tool_name": "create_issue", "tool_input": '{"title": "Mend it"}', "mcp_server_name": "github"}


def event(name: str, **more) -> dict:
    return COMMON | {"hook_event_name": name} | more


@pytest.fixture
def send(hook, agent_token, settings):
    """`send(event)`: Handrail's answer to the hook."""
    settings.HANDRAIL_HOLD_SECONDS = 0.2
    return lambda told: full(hook(agent_token, told, path="/hooks/cursor")).json


pytestmark = pytest.mark.django_db(transaction=True)


# Events --------------------------------------------------------------------------------------------------------------


def test_a_shell_command_is_judged_in_its_folder_and_is_asked_about_once(send):
    call = before("cursor", LIST | {"cwd": f"{FOLDER}/web"}) | {"cwd": f"{FOLDER}/web"}
    answer = send(call)
    assert answer["permission"] == "allow"
    assert answer["updated_input"] == LIST | {"cwd": f"{FOLDER}/web"}
    action = Action.objects.get()
    assert (action.tool, content(action)["cwd"]) == ("Bash", f"{FOLDER}/web")


@pytest.mark.parametrize(
    ("event_folder", "named", "judged"),
    [
        ({}, "/etc", "/etc"),
        ({"cwd": FOLDER}, "/etc", "/etc"),
        ({}, "web", f"{FOLDER}/web"),
        ({"cwd": f"{FOLDER}/web"}, "web", f"{FOLDER}/web"),
    ],
)
def test_a_shell_command_is_judged_where_it_says_that_it_runs(event_folder, named, judged):
    call = event("preToolUse", tool_name="Shell", tool_input=LIST | {"cwd": named}, tool_use_id="c1", **event_folder)
    assert CURSOR.read(call).cwd == judged


@pytest.mark.parametrize(
    ("name", "told", "tool"),
    [
        ("beforeShellExecution", PUSH | {"cwd": FOLDER, "sandbox": False}, "Bash"),
        ("beforeReadFile", {"file_path": f"{FOLDER}/.env", "content": "KEY=1", "attachments": []}, "Read"),
        ("beforeMCPExecution", GITHUB, "mcp__github__create_issue"),
    ],
)
def test_the_events_of_one_tool_wait_for_a_person_too(send, decide, bob, name, told, tool):
    assert send(event(name, **told))["permission"] == "deny"
    action = Action.objects.get()
    assert (action.tool, action.status) == (tool, Status.PENDING)
    decide(action, "deny", by=bob, comment="Not today.")
    answer = send(event(name, **told))
    assert (answer["permission"], "Not today." in answer["user_message"]) == ("deny", True)


def test_the_content_of_a_file_that_is_read_is_not_kept(send):
    send(event("beforeReadFile", file_path=f"{FOLDER}/.env", content="KEY=plain words", attachments=[]))
    assert CURSOR.read(event("beforeReadFile", file_path="a", content="b")).arguments == {"file_path": "a"}


@pytest.mark.parametrize(
    ("told", "server"),
    [
        ({"mcp_server_name": "github"}, "github"),
        ({"mcp_server_name": "My tools"}, r"My_tools_\w{12}"),
        ({"url": "https://mcp.example/sse"}, r"mcp_example_\w{12}"),
        ({"command": "/opt/bin/notes --all"}, r"notes_\w{12}"),
        ({}, r"unknown_\w{12}"),
    ],
)
def test_a_tool_of_a_server_has_the_servers_name(told, server):
    heard = CURSOR.read(event("beforeMCPExecution", tool_name="add", tool_input='{"a": 1}', **told))
    assert re.fullmatch(f"mcp__{server}__add", heard.tool)
    assert heard.arguments == {"a": 1}


def test_no_two_servers_have_one_name():
    """A grant for a tool of one of them would hold for the other."""
    servers = [{"mcp_server_name": name} for name in ("a b", "a_b", "a-b", "a__b", "a  b", "x" * 70, "x" * 71)]
    servers += [{"command": f"npx {package}"} for package in ("notes", "mail")]
    servers += [{"url": f"https://mcp.example/{path}"} for path in ("one", "two")]
    events = [event("beforeMCPExecution", tool_name="add", tool_input="{}", **each) for each in servers]
    assert len({CURSOR.read(each).tool for each in events}) == len(servers)


def test_a_tool_of_a_server_runs_once_it_is_approved_and_its_end_is_recorded(send, decide, bob):
    call = event("beforeMCPExecution", **GITHUB)
    send(call)
    decide(Action.objects.get(), by=bob)
    assert send(call)["permission"] == "allow"
    send(event("postToolUse", tool_name="MCP:create_issue", tool_input={"title": "Mend it"}, tool_output="{}"))
    assert Action.objects.get().status == Status.RUNNING
    send(event("afterMCPExecution", **GITHUB, result_json='{"number": 7}', duration=3))
    assert Action.objects.get().status == Status.SUCCEEDED


def test_an_edit_that_cursor_would_not_make_asks_for_the_call_instead(send, decide, bob):
    """It takes the path of an edited Write and keeps the content that the model wrote."""
    call = before("cursor", {"file_path": "/etc/hosts", "content": "one\n"}, "Write")
    send(call)
    instead = {"file_path": "/etc/hosts", "content": "two\n"}
    decide(Action.objects.get(), "edit", by=bob, arguments=instead)
    answer = send(call)
    assert (answer["permission"], '"content": "two\\n"' in answer["user_message"]) == ("deny", True)
    assert send(before("cursor", instead, "Write"))["permission"] == "allow"
    assert Action.objects.count() == 1


def test_a_session_is_told_from_its_beginning_to_its_end(send):
    send(event("sessionStart", session_id=SESSION, is_background_agent=False))
    send(event("beforeSubmitPrompt", prompt="Where are we?", attachments=[]))
    send(event("afterAgentResponse", text="In your home."))
    assert send(event("stop", status="completed", loop_count=0)) == {"continue": True}
    send(event("sessionEnd", session_id=SESSION, reason="completed"))
    said = Message.objects.order_by("seq").values_list("role", flat=True)
    assert list(said) == ["user", "assistant"]
    session = AgentSession.objects.get()
    assert (session.dialect, session.native_id, session.ended_at is not None) == ("cursor", SESSION, True)


def test_what_a_person_writes_goes_with_an_answer_that_cursor_reads():
    words = Reply(context="Use the other branch.")
    at_the_end = CURSOR.read(event("stop", status="completed", loop_count=0))
    assert CURSOR.hears(at_the_end, words)
    assert CURSOR.answer(at_the_end, words)["followup_message"] == "Use the other branch."
    assert not CURSOR.hears(CURSOR.read(event("afterAgentResponse", text="Done.")), words)
    assert not CURSOR.hears(CURSOR.read(event("afterMCPExecution", **GITHUB, result_json="{}")), words)
    denied = CURSOR.read(before("cursor", PUSH))
    assert "other branch" in CURSOR.answer(denied, Reply(DENY, "No.", context=words.context))["user_message"]


# The settings --------------------------------------------------------------------------------------------------------


@pytest.fixture
def gate(tmp_path):
    """`gate(event, port)`: the gate's line for this event, run by a shell with the event behind it, as Cursor does."""
    connection = tmp_path / "it's here" / "connection.json"
    connection.parent.mkdir()

    def run(told: dict, port: int, python: str | None = None) -> subprocess.CompletedProcess:
        connection.write_text(json.dumps({"address": f"http://127.0.0.1:{port}", "token": "hr_x", "patience_s": 2}))
        more = {"python": python} if python else {}
        hooks = CURSOR.hooks(lambda role, name="": hook_command(connection, role, CURSOR.name, name, **more))
        command = hooks[told["hook_event_name"]]["command"]
        shell = f"{command} <<'CURSOR_HOOK_EOF'\n{json.dumps(told)}\nCURSOR_HOOK_EOF"
        return subprocess.run(["/bin/sh", "-c", shell], stdin=subprocess.DEVNULL, capture_output=True, timeout=60)

    return run


@pytest.fixture
def desk():
    running = ScriptedServer()
    yield running
    running.close()


@pytest.mark.parametrize("told", [before("cursor", LIST), event("beforeMCPExecution", **GITHUB)])
def test_the_gate_reads_the_event_that_stands_behind_its_line(gate, desk, told):
    desk.play(http(envelope('{"permission": "allow"}')))
    done = gate(told, desk.port)
    assert (done.returncode, done.stdout, desk.asked) == (0, b'{"permission": "allow"}', [told])
    assert desk.heads[0].startswith("POST /hooks/cursor ")


@pytest.mark.parametrize("answer", [None, http(b"{}"), http(b""), http(envelope(), "500 Internal Server Error")])
def test_the_gate_exits_with_2_when_no_desk_decides(gate, desk, answer):
    desk.play(*[answer] * 9)
    assert gate(before("cursor", LIST), desk.port).returncode == 2


def test_the_gate_exits_with_2_when_its_python_is_gone(gate):
    assert gate(before("cursor", LIST), 9, python="/nowhere/python3").returncode == 2


def test_both_gates_block_when_they_fail_and_each_call_has_one_of_them():
    hooks = CURSOR.hooks(lambda role, name="": role)
    gates = {name: hook for name, hook in hooks.items() if hook.get("failClosed")}
    assert set(gates) == {"preToolUse", "beforeMCPExecution"}
    assert gates["preToolUse"]["matcher"] == "^(?!MCP:)"
    assert all("gate" in hook["command"] for hook in gates.values())
