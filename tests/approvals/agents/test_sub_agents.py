"""What an agent uses to start its sub-agents, wait for them and plan needs no approval; each call inside them does."""

import pytest

from approvals.agents import dialects
from approvals.models import Action, Status
from tests.approvals.agents.real_agents import before, does, headers
from tests.approvals.conftest import PUSH, full

pytestmark = pytest.mark.django_db(transaction=True)

# As the programs send them: Codex 0.169 and 0.171 (whose name space is glued to the name), OpenCode 1.18.33,
# Claude Code 2.1.332.
CODEX = {
    "spawn_agent": {"message": "Count the files.", "agent_type": "explorer", "fork_context": False},
    "send_input": {"target": "019a", "message": "Only *.py.", "interrupt": False},
    "resume_agent": {"id": "019a"},
    "wait_agent": {"targets": ["019a"], "timeout_ms": 15000},
    "close_agent": {"target": "019a"},
}
PLUMBING = [
    *(("codex", name, arguments) for name, arguments in CODEX.items()),
    *(("codex", f"multi_agent_v1{name}", arguments) for name, arguments in CODEX.items()),
    ("codex", "multi_agent_v1.wait_agent", CODEX["wait_agent"]),
    ("codex", "multi_agent_v1__spawn_agent", CODEX["spawn_agent"]),
    ("codex", "get_goal", {}),
    ("codex", "create_goal", {"objective": "Green tests", "token_budget": 5000}),
    ("codex", "update_goal", {"status": "complete"}),
    ("codex", "list_mcp_resources", {"server": "docs"}),
    ("codex", "list_mcp_resource_templates", {}),
    ("opencode", "task", {"description": "Count", "prompt": "Count the files.", "subagent_type": "general"}),
    ("claude-code", "Workflow", {"script": "return agent('Count the files.')"}),
    ("claude-code", "TaskCreate", {"subject": "Count", "description": "Count the files."}),
    ("claude-code", "TaskUpdate", {"taskId": "1", "status": "completed"}),
]


@pytest.fixture
def ask_hook(hook, agent_token, settings):
    """`ask_hook(program, tool, arguments)`: what the agent does after the answer to its call."""
    settings.HANDRAIL_HOLD_SECONDS = 0.2

    def ask(agent, tool, arguments, **more):
        event = before(agent, arguments, tool) | more
        answer = full(hook(agent_token, event, path=f"/hooks/{agent}", headers=headers(agent)))
        return does(agent, arguments, answer.json)

    return ask


@pytest.mark.parametrize(("program", "tool", "arguments"), PLUMBING)
def test_the_plumbing_of_sub_agents_makes_no_card(ask_hook, program, tool, arguments):
    assert ask_hook(program, tool, arguments) == ("runs", arguments)
    assert not Action.objects.filter(status=Status.PENDING).exists()


@pytest.mark.parametrize("program", ["claude-code", "codex", "opencode"])
def test_a_call_inside_a_sub_agent_is_asked_about(ask_hook, program):
    inside = {"agent_id": "019a", "agent_type": "explorer"} if program != "opencode" else {"session_id": "ses_child"}
    done, _ = ask_hook(program, "", PUSH, **inside)
    assert (done, Action.objects.get().status) == ("blocked", Status.PENDING)


@pytest.mark.parametrize(
    ("program", "tool"),
    [
        ("codex", "multi_agent_v1shell"), ("codex", "multi_agent_v1"), ("codex", "mcp__x__wait_agent"),
        ("codex", "xmulti_agent_v1wait_agent"), ("codex", "read_mcp_resource"), ("gemini", "wait_agent"),
        ("opencode", "wait_agent"),
    ],
)  # fmt: skip
def test_a_name_that_only_looks_like_it_is_asked_about(ask_hook, program, tool):
    assert ask_hook(program, tool, {"x": 1})[0] == "blocked"


def test_a_task_of_opencode_with_an_unknown_argument_is_asked_about(ask_hook):
    assert ask_hook("opencode", "task", {"prompt": "x", "allow": ["bash"]})[0] == "blocked"


# Gemini CLI's fetch --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prompt", ["Summarize https://docs.example.com/a?b=1 in two lines", "https://docs.example.com/"]
)
def test_a_fetch_of_gemini_is_judged_by_its_host(ask_hook, decide, bob, prompt):
    assert ask_hook("gemini", "web_fetch", {"prompt": prompt})[0] == "blocked"
    action = Action.objects.get()
    assert action.tool == "WebFetch"
    assert "docs.example.com" in action.title
    decide(action, by=bob)
    assert ask_hook("gemini", "web_fetch", {"prompt": prompt}) == ("runs", {"prompt": prompt})


@pytest.mark.parametrize(
    "prompt",
    [
        "Compare https://a.example/ with https://b.example/", "no address", "file:///etc/passwd", "see (https://a.example)",
        "https://a.example/\ufeffhttps", "https://\u00e4.example/", ["https://a.example/"], None,
    ],
)  # fmt: skip
def test_a_fetch_whose_host_is_not_plain_stays_an_unknown_tool(prompt):
    assert dialects.find("gemini").canonical("web_fetch", {"prompt": prompt})[0] == "gemini:web_fetch"


def test_an_edited_fetch_of_gemini_never_runs_with_the_old_address(ask_hook, decide, bob):
    asked = {"prompt": "Summarize https://a.example/"}
    ask_hook("gemini", "web_fetch", asked)
    decide(Action.objects.get(), "edit", by=bob, arguments={"url": "https://b.example/", **asked})
    assert ask_hook("gemini", "web_fetch", asked)[0] == "blocked"
