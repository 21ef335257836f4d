"""Where JSON is read as Python reads it, numbers lose digits: each place is listed here with why it may."""

import ast

import pytest

from tests.support import CHECKOUT

PACKAGES = ("approvals", "dashboard", "client/handrail_client")
OWN_FILE = "it is a file that Handrail or its client writes itself, with no call in it"
SETTINGS = "it is a settings file, in which numbers are limits and ports; no call is run from it"
PAST = "it is the record of calls that have run; it is shown or judged, and nothing is run from it"
NO_CALL = "its answer holds no arguments of a call"
READ_AS_PYTHON = {
    "approvals/protocols/aap/webhooks.py": NO_CALL,
    "approvals/agent_runs/attempts/reviewing.py": "it reads the comments of a reviewer agent; no call is run from it",
    "approvals/agent_runs/definitions/documents.py": "it copies what YAML read; a definition is no call",
    "approvals/agents/program.py": NO_CALL,
    "approvals/agents/codex/transcript.py": PAST,
    "approvals/agents/transcript_values.py": PAST,
    "approvals/agents/claude_code/own_settings.py": SETTINGS,
    "approvals/connect/agent_home.py": OWN_FILE,
    "approvals/agents/claude_code/folder_hook.py": SETTINGS,
    "approvals/agents/claude_code/machine_hook.py": SETTINGS,
    "approvals/agents/claude_code/user_settings.py": OWN_FILE,
    "approvals/agents/home_settings.py": SETTINGS,
    "approvals/connect/agent_folder.py": OWN_FILE,
    "approvals/agents/claude_code/settings.py": SETTINGS,
    "approvals/connect/machine.py": OWN_FILE,
    "approvals/agents/codex/trust.py": NO_CALL,
    "approvals/connect/folder_hooks.py": OWN_FILE,
    "approvals/evidence/changes.py": "it reads the cells of a notebook for a diff",
    "approvals/evidence/keeping.py": OWN_FILE,
    "approvals/evidence/publishes.py": "it reads the name and the version of a package, which are texts",
    "approvals/hooks/acp_program/__main__.py": OWN_FILE,
    "approvals/hooks/acp_program/desk.py": "the protocol takes a yes or a no; an edit comes as words",
    "approvals/hooks/acp_program/json_text.py": "it is what reads digits",
    "approvals/hooks/command_hook.py": "it sends the bytes of the call, and prints the text that the desk made",
    "approvals/hooks/fail_closed.py": "it looks whether an answer is whole, and sends the bytes",
    "approvals/notify/log_targets/sending.py": OWN_FILE,
    "approvals/agent_runs/model_relay/bodies.py": OWN_FILE,
    "approvals/agent_runs/model_relay/providers.py": "it counts tokens; the bytes of the answer pass as they are",
    "approvals/pages/agent_definitions.py": "a definition is no call",
    "approvals/pages/bound_files.py": "it reads the scripts of a package.json, which are texts",
    "approvals/pages/notifications.py": NO_CALL,
    "approvals/pages/step_up.py": NO_CALL,
    "approvals/past/attacks.py": OWN_FILE,
    "approvals/policy/__main__.py": "it answers with a tier; no rule matches a number",
    "approvals/policy/rule_files.py": "it reads an agent's settings, whose rules are texts",
    "approvals/policy/shell.py": "it is the tree of a shell text, from a parser of our own",
    "approvals/connect/proof/model.py": "it is the scripted model of a proof",
    "approvals/connect/proof/scratch.py": SETTINGS,
    "approvals/connect/proof/verdict.py": OWN_FILE,
    "approvals/connect/snippets/handrail.py": "it keeps the digits of numbers (test_number_doors)",
    "client/handrail_client/claude_sdk.py": "it does what the SDK does, to see whether digits would be lost",
    "client/handrail_client/connection.py": OWN_FILE,
    "client/handrail_client/json_text.py": "it is what reads digits",
    "dashboard/event_log/checkpoints.py": "it reads the number of a line that it wrote itself",
    "dashboard/json_text.py": "it is what reads digits",
    "dashboard/workers/loop_watch.py": OWN_FILE,
    "dashboard/ops/proxy_check.py": NO_CALL,
    "dashboard/site/sso/protocol.py": NO_CALL,
}


def reads_as_python(node) -> bool:
    """Whether it is `json.loads`, `json.load`, a decoder, `from json import …` or `….json()`."""
    if isinstance(node, ast.ImportFrom):
        return node.module == "json" and any(each.name in ("load", "loads", "JSONDecoder") for each in node.names)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr == "json" and not node.args and not node.keywords
    if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
        return False
    return node.value.id == "json" and node.attr in ("load", "loads", "JSONDecoder")


def readers() -> set[str]:
    found = set()
    for package in PACKAGES:
        for file in (CHECKOUT / package).rglob("*.py"):
            if any(map(reads_as_python, ast.walk(ast.parse(file.read_text())))):
                found.add(str(file.relative_to(CHECKOUT)))
    return found


def test_each_place_that_reads_numbers_as_python_does_says_why_it_may():
    assert readers() - READ_AS_PYTHON.keys() == set()


def test_no_reason_is_left_over():
    assert READ_AS_PYTHON.keys() - readers() == set()


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("json.loads(body)", True),
        ("json.load(file)", True),
        ("map(json.loads, lines)", True),
        ("answer.json()", True),
        ("from json import loads", True),
        ("json_text.loads(body)", False),
        ("strict_json.loads(body)", False),
        ("json.dumps(value)", False),
        ("dialect.json(value)", False),
    ],
)
def test_what_counts_as_reading_so(text, reads):
    assert any(map(reads_as_python, ast.walk(ast.parse(text)))) == reads
