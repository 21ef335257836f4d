"""A search by an agent's own tool that prints lines: above known secrets it asks, as `grep -r` does."""

import pytest

from approvals.agents.dialects import find
from approvals.evaluation.context.symlinks import _also_asked
from approvals.policy import classify, default_policy, load_policy

POLICY = load_policy(default_policy())
SECRETS = ["server.key", "config/prod.key", "config/.env", "deep/er/id_rsa"]
CONTENT = {"output_mode": "content"}


def judge(arguments, secrets=SECRETS, **context):
    return classify("Grep", {"pattern": "K"} | arguments, policy=POLICY, context={"secrets": secrets} | context)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"path": "."},
        {"path": "/workspace"},
        {"path": "config"},
        {"path": "deep"},
        {"path": "src/../config"},
        {"path": "docs"},  # a link to config
        {"glob": "*"},
        {"glob": "*.key"},
        {"glob": "*.KEY"},
        {"glob": "*.{py,key}"},
        {"glob": "*.py,*.key"},
        {"glob": "*.py *.key"},
        {"glob": "**/*.k?y"},
        {"glob": "*.[k]ey"},
        {"glob": "config/**"},
        {"glob": "!*.py"},
        {"glob": "!*.key"},  # how an exclusion works with others is for the tool to say
        {"glob": "id_*"},
        {"glob": r"\*.py"},
        {"type": "json"},
        {"type": "anything"},
        {"output_mode": "lines"},
        {"output_mode": "content", "head_limit": 1},
        {"output_mode": None, "-n": True},
        {"output_mode": None, "-A": 3},
        {"multiline": True, "-i": True},
    ],
)
def test_a_search_that_prints_lines_above_a_secret_asks(arguments):
    verdict = judge(CONTENT | arguments, symlinks={"docs": "config"})
    assert (verdict.tier, verdict.undo) == ("high", "no")
    assert "where secrets are kept" in verdict.reasons[0]


@pytest.mark.parametrize(
    "arguments",
    [
        {"output_mode": "files_with_matches"},
        {"output_mode": "count"},
        {"output_mode": None},
        CONTENT | {"path": "src"},
        CONTENT | {"path": "conf"},
        CONTENT | {"path": "src/app.py"},
        CONTENT | {"glob": "*.py"},
        CONTENT | {"glob": "*.{ts,tsx}"},
        CONTENT | {"glob": "src/**"},
        CONTENT | {"glob": "src/**/*.py"},
        CONTENT | {"type": "py"},
        CONTENT | {"path": "config", "glob": "*.toml"},
    ],
)
def test_a_search_that_opens_no_secret_does_not_ask(arguments):
    assert judge(arguments).tier == "low"


def test_a_search_does_not_ask_where_no_secret_is_known():
    assert judge(CONTENT, secrets=[]).tier == "low"


def test_a_type_leaves_out_only_files_with_the_name_of_a_secret():
    assert judge(CONTENT | {"type": "py"}, secrets=["keys.py"]).tier == "high"


def test_the_shell_and_the_tool_are_judged_alike():
    for command in ("rg K", "grep -r K .", "git grep K"):
        shell = classify("Bash", {"command": command}, policy=POLICY, context={"secrets": SECRETS})
        assert shell.tier == judge(CONTENT).tier == "high"


def test_the_secrets_of_the_tree_are_asked_for_only_where_lines_are_printed():
    assert _also_asked("Grep", CONTENT, "/workspace", "/workspace") == {"secrets": True}
    assert _also_asked("Grep", {"pattern": "x"}, "/workspace", "/workspace") == {}
    assert _also_asked("Glob", CONTENT, "/workspace", "/workspace") == {}


@pytest.mark.parametrize(
    ("agent", "tool", "arguments", "prints"),
    [
        ("gemini", "grep_search", {"pattern": "K"}, True),
        ("gemini", "grep_search", {"pattern": "K", "names_only": True}, False),
        ("qwen", "grep_search", {"pattern": "K"}, True),
        ("opencode", "grep", {"pattern": "K"}, True),
        ("opencode", "glob", {"pattern": "K"}, False),
        ("copilot", "grep", {"pattern": "K"}, False),
        ("copilot", "grep", {"pattern": "K", "output_mode": "content"}, True),
        ("copilot", "rg", {"pattern": "K", "output_mode": "content"}, True),
        ("claude-code", "Grep", {"pattern": "K"}, False),
        ("claude-code", "Grep", {"pattern": "K", "output_mode": "content"}, True),
    ],
)
def test_a_search_of_each_agent_is_judged_by_what_its_tool_prints(agent, tool, arguments, prints):
    dialect = find(agent)
    ours, translated = dialect.canonical(tool, arguments)
    verdict = classify(ours, translated, policy=POLICY, context={"secrets": SECRETS})
    assert (verdict.tier == "high") == prints
