"""A conversation is kept of every connected agent, from what its hooks tell."""

import pytest

from approvals.agents import dialects
from approvals.models import Action, AgentSession, Message
from tests.approvals.agents.real_agents import FOLDER, SESSION, after, before, headers
from tests.approvals.conftest import LIST, WIPE

pytestmark = pytest.mark.django_db(transaction=True)
IN_CLAUDE_WORDS = {"hook_event_name": "UserPromptSubmit", "session_id": SESSION, "prompt": "Where are we?"}
# (event, its name in the address) of a prompt and of the end of a turn; None where no hook of the agent tells it.
PROMPTS = {
    "claude-code": (IN_CLAUDE_WORDS, ""),
    "codex": (IN_CLAUDE_WORDS, ""),
    "qwen": (IN_CLAUDE_WORDS, ""),
    "gemini": ({"hook_event_name": "BeforeAgent", "session_id": SESSION, "prompt": "Where are we?"}, ""),
    "copilot": ({"sessionId": SESSION, "prompt": "Where are we?"}, "userPromptSubmitted"),
    "opencode": None,
    "cursor": ({"hook_event_name": "beforeSubmitPrompt", "conversation_id": SESSION, "prompt": "Where are we?"}, ""),
}
STOP = {"hook_event_name": "Stop", "session_id": SESSION, "last_assistant_message": "In your home."}
ANSWERS = {
    "claude-code": (STOP, ""),
    "codex": (STOP, ""),
    "qwen": (STOP, ""),
    "gemini": ({"hook_event_name": "AfterAgent", "session_id": SESSION, "prompt_response": "In your home."}, ""),
    "copilot": None,
    "opencode": None,
    "cursor": ({"hook_event_name": "afterAgentResponse", "conversation_id": SESSION, "text": "In your home."}, ""),
}


def test_the_result_of_a_denied_call_says_that_it_did_not_run(hook, agent_token, bob, browser_of):
    hook(agent_token, before("claude-code", WIPE), path="/hooks/claude-code")
    event = after("claude-code", WIPE)[0] | {"hook_event_name": "PostToolUseFailure", "error": "denied"}
    hook(agent_token, event, path="/hooks/claude-code")
    shown = browser_of(bob).get(f"/conversations/{AgentSession.objects.get().pk}/").text
    assert "did not run" in shown
    assert "failed" not in shown


@pytest.mark.parametrize("program", dialects.DIALECTS)
def test_what_its_hooks_tell_is_kept_in_its_order(hook, agent_token, agent, program):
    def send(told):
        event, name = told
        hook(agent_token, event | {"cwd": FOLDER}, path=f"/hooks/{program}", headers=headers(program, name))

    wanted = []
    if PROMPTS[program]:
        send(PROMPTS[program])
        wanted.append(("user", "text", "Where are we?"))
    hook(agent_token, before(program, LIST), path=f"/hooks/{program}", headers=headers(program))
    send(after(program, LIST, 0, "/home/mia; AKIAIOSFODNN7EXAMPLE"))
    if ANSWERS[program]:
        send(ANSWERS[program])
    session = AgentSession.objects.get()
    assert (session.agent, session.dialect, session.native_id) == (agent, program, SESSION)
    rows = list(Message.objects.order_by("seq"))
    kinds = [(row.role, row.kind) for row in rows]
    answers = [("assistant", "text")] if ANSWERS[program] else []
    assert kinds == [row[:2] for row in wanted] + [("assistant", "call"), ("tool", "result"), *answers]
    call, result = (next(row for row in rows if row.kind == kind) for kind in ("call", "result"))
    assert (call.tool, result.tool) == ("Bash", "Bash")
    assert result.ok is True
    assert "[secret]" in result.text
    assert "AKIA" not in "".join(row.text for row in rows)
    if dialects.find(program).has_call_id:
        assert call.action == result.action == Action.objects.get()
