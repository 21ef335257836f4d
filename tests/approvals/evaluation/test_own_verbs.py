"""Handrail's own verbs stand in one registry, which says all that is known of each."""

import ast
import inspect
from types import SimpleNamespace

import pytest

from approvals import evidence
from approvals.evaluation.calls import Call
from approvals.evaluation.own_verbs import HELD_OPEN, OWN_VERBS, PUSHES, title_of, tool_of
from dashboard.problems import Problem
from tests.support import CHECKOUT

WORKSPACE = SimpleNamespace(key="shop", remote="https://git.example/shop.git")
WISH = {
    "snapshot": 3,
    "branch": "fix",
    "title": "Fix it",
    "host": "files.example.org",
    "scope": "once",
    "path": "notes.txt",
    "argv": ["bash", "-l"],
    "text": "ls",
    "name": "shell",
    "command": "make test",
    "kind": "snapshot",
    "action": "A-41",
    "credential": "github",
    "method": "POST",
    "until": "2026-12-01T12:00:00+00:00",
}
ASKERS = ("require", "require_for_others")
# Verbs that become calls of Bash and Write.
AS_CALLS = {"command", "write"}


@pytest.mark.parametrize("tool", OWN_VERBS)
def test_each_verb_has_a_title_an_effect_and_a_function_that_does_it(tool):
    assert evidence.evidence_of  # registers what gathers evidence
    verb = OWN_VERBS[tool]
    assert "{" not in title_of(tool, WISH, WORKSPACE)
    if tool not in HELD_OPEN:  # which the egress proxy does, once it is approved
        assert list(inspect.signature(verb.perform).parameters) == ["workspace", "wish", "by"]
    assert bool(verb.effect) != bool(verb.gather)
    assert verb.is_quick or verb.gather


def test_only_what_leaves_input_and_ended_programs_cannot_be_undone():
    final = {tool.removeprefix("Handrail.") for tool, verb in OWN_VERBS.items() if not verb.can_undo}
    ends = {"Terminal", "Type", "Cancel", "StopOperation"}
    assert final == {"Push", "PullRequest", "TakeBack", "Allow", *HELD_OPEN} | ends
    assert PUSHES == ["Handrail.Push", "Handrail.PullRequest"]


def test_the_functions_that_ask_a_person_first_name_exactly_the_verbs_of_the_registry():
    asked = {tool_of(verb) for path in (CHECKOUT / "workspaces").rglob("*.py") for verb in verbs_in(path)}
    # Asked for by Handrail itself (approvals.broker.quarantine_cards, workspaces.runner.leashes).
    unasked = {"Handrail.PutBack", *HELD_OPEN}
    assert asked | unasked == set(OWN_VERBS)


def verbs_in(path):
    """Yield the verbs that a module passes to needs_approval's functions, as text or as its constant KIND."""
    tree = ast.parse(path.read_text())
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if getattr(call.func, "attr", "") in ASKERS and getattr(call.func.value, "id", "") == "needs_approval":
            verb = call.args[1].value if isinstance(call.args[1], ast.Constant) else constant(tree, call.args[1].id)
            if verb not in AS_CALLS:
                yield verb


def constant(tree, name: str) -> str:
    """Return the value that a module gives to a name at its top level."""
    given = [node for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == name]
    return given[0].value.value


@pytest.mark.parametrize("tool", HELD_OPEN)
def test_no_agent_submits_what_the_proxy_asks_about_itself(tool):
    with pytest.raises(Problem, match="have their own endpoints"):
        Call(tool, {"credential": "github"})
    assert Call("network.scan", {}).tool == "network.scan"
