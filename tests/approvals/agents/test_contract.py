"""The contract of a dialect: each one passes all of this, over the real address, judged by what its agent does."""

import json

import pytest

from approvals.agents import dialects
from approvals.agents.dialect import DENY, NONE, WHOLE, Reply
from approvals.agents.faults import BLOCKED, FAULTS, RUNS
from approvals.models import Action, Status
from tests.approvals.agents.real_agents import CALL, FOLDER, SESSION, after, before, does, headers
from tests.approvals.conftest import LIST, PUSH, WIPE, full

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def short_hold(settings):
    settings.HANDRAIL_HOLD_SECONDS = 0.2


@pytest.fixture(params=[*dialects.DIALECTS, *dialects.CLIENT_DIALECTS])
def program(request) -> str:
    return request.param


@pytest.fixture
def dialect(program):
    return dialects.find(program)


@pytest.fixture
def ask_hook(hook, agent_token, program):
    """`ask_hook(arguments)`: what the agent does after the answer to its call."""

    def ask(arguments, *, tool="", token=agent_token, **more):
        sent = headers(program) + more.pop("more_headers", [])
        answer = hook(token, before(program, arguments, tool), path=f"/hooks/{program}", headers=sent, **more)
        return does(program, arguments, full(answer).json)

    return ask


# Calls ---------------------------------------------------------------------------------------------------------------


def test_an_allowed_call_runs_with_its_own_arguments(ask_hook, dialect):
    assert ask_hook(LIST) == ("runs", LIST)
    action = Action.objects.get()
    assert (action.tool, action.session, action.status) == ("Bash", SESSION, Status.RUNNING)
    assert action.call_id.removeprefix("acp:") == (CALL if dialect.has_call_id else "")


def test_a_forbidden_call_is_blocked_with_the_reason(ask_hook):
    done, reason = ask_hook(WIPE)
    assert (done, reason.startswith("The policy forbids this: ")) == ("blocked", True)


def test_an_unanswered_call_is_blocked_without_being_denied(ask_hook):
    done, reason = ask_hook(PUSH)
    assert (done, "This is not a denial" in reason) == ("blocked", True)
    assert Action.objects.get().status == Status.PENDING


def test_a_late_yes_counts_when_the_call_comes_again(ask_hook, decide, bob):
    ask_hook(PUSH)
    decide(Action.objects.get(), by=bob)
    assert ask_hook(PUSH) == ("runs", PUSH)
    assert Action.objects.get().status == Status.RUNNING


def test_a_denial_reaches_the_model_with_its_reason(ask_hook, decide, bob):
    ask_hook(PUSH)
    decide(Action.objects.get(), "deny", by=bob, comment="not on a Friday")
    done, reason = ask_hook(PUSH)
    assert (done, "not on a Friday" in reason) == ("blocked", True)


def test_an_edit_runs_once_by_the_answer_or_by_the_call_that_it_asks_for(ask_hook, dialect, decide, bob):
    instead = {"command": "git push origin review"}
    ask_hook(PUSH)
    decide(Action.objects.get(), "edit", by=bob, arguments=instead)
    done, said = ask_hook(PUSH)
    if dialect.edits != NONE:
        assert (done, said) == ("runs", instead)
        return
    assert (done, '{"command": "git push origin review"}' in said) == ("blocked", True)
    assert ask_hook(instead) == ("runs", instead)
    assert Action.objects.count() == 1
    assert ask_hook(instead)[0] == "blocked"  # another time it needs another approval


def test_an_edit_that_removes_an_argument_never_runs_with_it(ask_hook, dialect, decide, bob):
    asked = PUSH | {"description": "Publish"}
    instead = {"command": "git push origin review"}
    ask_hook(asked)
    decide(Action.objects.get(), "edit", by=bob, arguments=instead)
    done, said = ask_hook(asked)
    if dialect.edits == WHOLE:
        assert (done, said) == ("runs", instead)
    else:
        assert done == "blocked"
        assert ask_hook(instead) == ("runs", instead)
    assert Action.objects.count() == 1


def test_an_edit_of_true_to_1_is_an_edit(ask_hook, decide, bob):
    asked, instead = PUSH | {"force": True}, PUSH | {"force": 1}
    ask_hook(asked)
    decide(Action.objects.get(), "edit", by=bob, arguments=instead)
    done, said = ask_hook(asked)
    assert '"force": 1' in (json.dumps(said) if done == "runs" else said), (done, said)


def test_how_an_edited_call_ended_is_recorded_also_without_an_id(hook, agent_token, ask_hook, dialect, decide, bob):
    instead = {"command": "git push origin review"}
    ask_hook(PUSH)
    decide(Action.objects.get(), "edit", by=bob, arguments=instead)
    if ask_hook(PUSH)[0] == "blocked":
        ask_hook(instead)
    event, name = after(dialect.name, instead)
    hook(agent_token, event, path=f"/hooks/{dialect.name}", headers=headers(dialect.name, name))
    assert Action.objects.get().status == Status.SUCCEEDED


@pytest.fixture
def ended(hook, agent_token, ask_hook, dialect, decide, bob):
    """`ended(status, said)`: the action of an approved push after the agent's report of its end."""

    def end(status: int | None, said: str = "done") -> Action:
        ask_hook(PUSH)
        decide(Action.objects.get(), by=bob)
        ask_hook(PUSH)
        event, name = after(dialect.name, PUSH, status, said)
        full(hook(agent_token, event, path=f"/hooks/{dialect.name}", headers=headers(dialect.name, name)))
        return Action.objects.get()

    return end


@pytest.mark.parametrize("status", [1, 128, 137])
def test_a_command_that_failed_is_recorded_as_failed(ended, dialect, status):
    action = ended(status, "error: failed to push some refs")
    assert action.status == Status.FAILED
    assert action.result["tail"].strip().startswith("error: failed to push some refs")
    if dialect.name not in ("acp", "cursor"):  # which tell that a call failed, and no exit status
        assert action.result["exit_status"] == status


@pytest.mark.parametrize("said", ["done", "Exit Code: 0", "<shellId: 0 completed with exit code 0>", ""])
def test_the_output_of_a_failed_command_cannot_make_it_a_success(ended, said):
    assert ended(3, said).status == Status.FAILED


def test_a_command_that_ended_well_is_recorded_as_succeeded(ended):
    assert ended(0, "error: not really").status == Status.SUCCEEDED


def test_an_end_without_exit_status_is_no_success(ended, dialect):
    if dialect.name in ("claude-code", "qwen", "acp"):
        pytest.skip("it reports a failure by another event or status")
    action = ended(None)
    assert (action.status, action.result["note"]) == (
        Status.UNCERTAIN, "It ended, and the agent did not report its exit status.")  # fmt: skip


SECRETS = "SECRET_KEY=sk-live-0123456789abcdef\nDEBUG=1\n"


def test_what_looks_like_a_secret_is_masked_in_a_result(ended):
    assert ended(0, SECRETS).result["tail"].startswith("SECRET_KEY=[secret]\nDEBUG=1")


READERS = {
    "claude-code": ("Read", "file_path"), "codex": ("view_image", "path"), "qwen": ("read_file", "file_path"),
    "gemini": ("read_file", "file_path"), "copilot": ("view", "path"), "opencode": ("read", "filePath"),
    "acp": ("read", "path"), "cursor": ("Read", "file_path"),
}  # fmt: skip


def test_a_file_that_a_tool_read_is_not_kept(hook, agent_token, ask_hook, dialect, decide, bob):
    tool, argument = READERS[dialect.name]
    arguments = {argument: f"{FOLDER}/.env"}
    ask_hook(arguments, tool=tool)
    decide(Action.objects.get(), by=bob)
    ask_hook(arguments, tool=tool)
    event, name = after(dialect.name, arguments, said="plain words of a file", tool=tool)
    full(hook(agent_token, event, path=f"/hooks/{dialect.name}", headers=headers(dialect.name, name)))
    action = Action.objects.get()
    assert (action.status, "tail" in action.result) == (Status.SUCCEEDED, False)


def test_gemini_is_not_told_of_a_change_when_there_is_none():
    """It tells the model that a hook has changed the call whenever the answer holds arguments."""
    gemini = dialects.find("gemini")
    heard = gemini.read(before("gemini", LIST))
    assert gemini.answer(heard, Reply("allow", "Yes.", heard.arguments)) == {"decision": "allow", "reason": "Yes."}


# What is not a call that can be judged -------------------------------------------------------------------------------


def test_an_agents_own_tool_is_not_taken_for_one_that_the_policy_knows(ask_hook, dialect):
    """A server may give its tool any name."""
    if dialect.names_are_ours:
        assert ask_hook({"x": 1}, tool="HandrailUnknown")[0] == "blocked"
        return
    known = next(name for name in ("Read", "Edit") if name not in dialect.tools)
    assert ask_hook({"file_path": f"{FOLDER}/README.md"}, tool=known)[0] == "blocked"
    assert Action.objects.get().tool == f"{dialect.name}:{known}"


def test_an_argument_that_is_not_known_makes_the_call_ask(ask_hook, dialect):
    tool = next((own for own, (ours, _) in dialect.tools.items() if ours == "Bash"), None)
    if tool:
        assert ask_hook(LIST | {"where_to_run": "/"}, tool=tool)[0] == "blocked"
        assert Action.objects.get().tool == f"{dialect.name}:{tool}"


def test_a_wrong_token_is_blocked(ask_hook):
    assert ask_hook(LIST, token="hr_wrong")[0] == "blocked"
    assert Action.objects.count() == 0


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"\x00", b"{"])
def test_a_body_that_is_no_event_is_blocked(hook, agent_token, program, body):
    answer = hook(agent_token, body, path=f"/hooks/{program}", headers=headers(program))
    assert does(program, {}, full(answer).json)[0] == "blocked"


@pytest.mark.parametrize("missing", ["session", "tool"])
def test_an_event_without_session_or_tool_is_blocked(hook, agent_token, program, missing):
    names = {
        "session": ("session_id", "sessionId", "conversation_id"),
        "tool": ("tool_name", "toolName", "tool", "toolCall"),
    }[missing]
    event = {name: value for name, value in before(program, LIST).items() if name not in names}
    answer = hook(agent_token, event, path=f"/hooks/{program}", headers=headers(program))
    assert does(program, LIST, full(answer).json)[0] == "blocked"
    assert Action.objects.count() == 0


@pytest.mark.parametrize("more", [{"method": "GET"}, {"host": "evil.example"}])
def test_what_django_refuses_is_blocked(ask_hook, more):
    assert ask_hook(LIST, **more)[0] == "blocked"


# The envelope of the hook's program ----------------------------------------------------------------------------------


def enveloped(hook, token, program, event, named="preToolUse"):
    sent = [*headers(program, named), ("Prefer", "handrail-envelope")]
    told = full(hook(token, event, path=f"/hooks/{program}", headers=sent)).json
    assert set(told) == {"handrail", "decides", "stdout"}
    return told


def test_the_program_gets_the_same_answer_in_an_envelope(hook, agent_token, program):
    told = enveloped(hook, agent_token, program, before(program, LIST))
    assert (told["handrail"], told["decides"]) == (1, True)
    assert does(program, LIST, json.loads(told["stdout"])) == ("runs", LIST)


def test_a_refusal_outside_the_view_comes_in_an_envelope_too(hook, agent_token, program):
    told = enveloped(hook, agent_token, program, b"{")
    assert told["decides"] is True


def test_an_event_that_is_not_known_decides_nothing(hook, agent_token, program):
    """The program, as a gate, blocks then: a newer version may have given the event before a tool another name."""
    event = before(program, LIST) | {"hook_event_name": "BeforeEachTool"}
    assert enveloped(hook, agent_token, program, event, named="beforeEachTool")["decides"] is False
    assert Action.objects.count() == 0


# Facts ---------------------------------------------------------------------------------------------------------------


def test_each_fault_is_answered_for(dialect):
    assert set(dialect.faults) == set(FAULTS)
    assert set(dialect.faults.values()) <= {RUNS, BLOCKED}


def test_names_translate_back_exactly(dialect):
    for tool, (ours, names) in dialect.tools.items():
        assert len(set(names.values())) == len(names), tool
        arguments = {name: name.upper() for name in names}
        heard = dialect.read(before(dialect.name, arguments, tool), "preToolUse")
        assert (heard.tool, heard.native) == (ours, (tool, arguments))
        assert dialect.native(heard, heard.arguments) == arguments
        edited = {name: f"{value}!" for name, value in arguments.items()}
        assert dialect.native(heard, {names[name]: value for name, value in edited.items()}) == edited


def test_a_denial_is_a_denial_to_any_event(dialect):
    assert does(dialect.name, {}, dialect.deny("because")) == ("blocked", "because")


def test_an_interrupt_keeps_a_denied_call_denied(dialect):
    heard = dialect.read(before(dialect.name, LIST), "preToolUse")
    done, reason = does(dialect.name, LIST, dialect.answer(heard, Reply(DENY, "No.", ends_turn="bob interrupted it.")))
    assert (done, reason.startswith("No.")) == ("blocked", True)


def test_the_hooks_program_gives_up_before_the_agent_does(dialect):
    assert dialect.patience_s < dialect.hook_patience_s < 86_400


# A client that is asked after the agent's own hook -------------------------------------------------------------------


def test_a_call_that_the_agents_own_hook_has_allowed_is_permitted_without_another_action(hook, agent_token):
    answer = full(hook(agent_token, before("opencode", LIST), path="/hooks/opencode"))
    assert does("opencode", LIST, answer.json)[0] == "runs"
    # The client sends other arguments for the same call, so only its id tells.
    permission = before("acp", {"filepath": "x", "diff": "y"}, "edit")
    assert full(hook(agent_token, permission, path="/hooks/acp")).json == {"decision": "allow"}
    assert Action.objects.count() == 1

    another_call = permission | {"toolCall": permission["toolCall"] | {"toolCallId": "c2"}}
    for other in (permission | {"sessionId": "s2"}, another_call):
        assert full(hook(agent_token, other, path="/hooks/acp")).json["decision"] == "deny"
    Action.objects.filter(tool="Bash").update(status=Status.SUCCEEDED)
    assert full(hook(agent_token, permission, path="/hooks/acp")).json["decision"] == "deny"


def test_an_id_of_an_earlier_call_of_the_client_permits_nothing(hook, agent_token):
    first, second = before("acp", LIST), before("acp", PUSH)
    assert full(hook(agent_token, first, path="/hooks/acp")).json == {"decision": "allow"}
    assert full(hook(agent_token, second, path="/hooks/acp")).json["decision"] == "deny"


def test_a_call_that_codex_refused_itself_is_unclear_once_its_turn_is_over(hook, agent_token, decide, bob):
    """Codex reports nothing of a call that it refuses after its hook has allowed it."""
    event = before("codex", PUSH)
    hook(agent_token, event, path="/hooks/codex")
    decide(Action.objects.get(), by=bob)
    hook(agent_token, event, path="/hooks/codex")
    assert Action.objects.get().status == Status.RUNNING
    hook(agent_token, event | {"hook_event_name": "Stop"}, path="/hooks/codex")
    assert Action.objects.get().status == Status.UNCERTAIN
