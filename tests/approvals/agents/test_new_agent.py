"""A new agent is one folder and one line: no other code has to be changed for it, and no other code names it."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from approvals import agents
from approvals.agents import dialects, programs, transcripts
from approvals.agents.hooks import FOLDER_HOOKS
from tests.support import CHECKOUT
from workspaces.envelope.sensitive_names import any_takes_effect

CHECKS = Path(__file__).with_name("sample_checks.py")
TIMEOUT = 300  # seconds


def test_an_agent_that_is_a_folder_and_a_line_is_known_everywhere(tmp_path):
    words = ["-m", "pytest", "-q", "-n0", "-p", "tests.approvals.agents.sample_agent", "-p", "no:cacheprovider"]
    # Without Django's settings in it: they would be read before this run has a home and a database of its own.
    of_this_run = ("DJANGO_SETTINGS_MODULE", "HANDRAIL_HOME", "HANDRAIL_RUNTIME")
    environment = {name: value for name, value in os.environ.items() if name not in of_this_run}
    done = subprocess.run(
        [sys.executable, *words, f"--basetemp={tmp_path / 'tests'}", str(CHECKS)],
        cwd=CHECKOUT,
        env=environment | {"HANDRAIL_TEST_SAMPLE_AGENT": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]


def test_each_agent_has_the_name_of_its_line():
    assert [dialect.name for dialect in dialects.ALL] == list(agents.AGENTS)
    with_program = [agent for agent in agents.AGENTS if agents.part(agent, "program")]
    assert list(programs.SCRIPTED) == with_program
    assert set(agents.AGENTS) - set(with_program) <= {"cursor"}  # it asks its maker's models alone
    assert {name: launcher.name for name, launcher in programs.LAUNCHERS.items()} == {
        name: name for name in programs.LAUNCHERS
    }
    assert [reader.NAME for reader in transcripts.READERS.values()] == list(transcripts.READERS)


def test_the_startup_files_and_the_program_of_each_agent_are_protected():
    protected = agents.parts("protected")
    assert list(protected) == list(agents.AGENTS)
    for dialect in dialects.ALL:
        assert dialect.program in protected[dialect.name].PROGRAMS.split()
        settings = dialect.settings_file or FOLDER_HOOKS[dialect.name].settings_file
        assert any_takes_effect(str(settings).lower().split("/")), settings


# Outside of the agents' folders -----------------------------------------------------------------------------------

DATA = "it is data: paths, programs or words that stand for what they are"
TOOLS = "tools and texts of an agent, which are read the same whoever sends them"
# Where an agent is named in code. The list gets shorter: a new agent is named in no other place.
NAMED_IN = {
    "approvals/agent_runs/definitions/agent_spec.py": DATA,
    "approvals/api/rule_files.py": "it reads and writes the rules of two agents, each in its own form",
    "approvals/hooks/acp_program/__main__.py": "it runs elsewhere, and its mode is named for the agent",
    "approvals/hooks/acp_program/codex_gate.py": "it runs elsewhere, and its mode is named for the agent",
    "approvals/hooks/command_hook.py": "it runs elsewhere: connections that were written before name no agent",
    "approvals/pages/connect.py": DATA,
    "approvals/pages/policy/agent_rules.py": "it shows the rules of two agents, each in its own form",
    "approvals/past/attacks.py": DATA,
    "approvals/policy/programs/clients.py": DATA,
    "approvals/policy/programs/registry.py": DATA,
    "approvals/policy/reach.py": DATA,
    "approvals/policy/reason_forms.py": TOOLS,
    "approvals/policy/rule_files.py": "it reads and writes the rules of two agents, each in its own form",
    "approvals/policy/title_forms.py": TOOLS,
    "approvals/policy/tools.py": TOOLS,
    "dashboard/ops/proxy_check.py": "the address of a hook that is tried",
    "dashboard/people/forms.py": DATA,
    "dashboard/site/set_up.py": DATA,
    "workspaces/drivers/box.py": DATA,
    "workspaces/management/commands/agents.py": DATA,
    "workspaces/operations/needs_approval.py": DATA,
    "workspaces/pages/header_facts.py": DATA,
    "workspaces/provisioning/repository_files/find.py": DATA,
    "workspaces/provisioning/repository_files/handrail_toml.py": DATA,
    "workspaces/provisioning/repository_files/others.py": DATA,
    "workspaces/runner/mcp_servers.py": DATA,
}
# A database has cursors, and a page of a list too: there the agent is meant where its files or its program are.
OF_THE_HOUSE = {"cursor": r"\.cursor/|cursor-agent|cursor\.com|agents\.cursor"}
NAMES = re.compile("|".join(OF_THE_HOUSE.get(name, name.partition("-")[0]) for name in agents.AGENTS), re.IGNORECASE)


def test_no_code_outside_of_the_agents_folders_names_one():
    found = set()
    for folder in ("approvals", "workspaces", "dashboard"):
        for path in Path(CHECKOUT, folder).rglob("*.py"):
            of_house = path.relative_to(CHECKOUT).as_posix()
            is_looked_at = not of_house.startswith("approvals/agents/") and "/migrations/" not in of_house
            if is_looked_at and any(map(NAMES.search, words_of(ast.parse(path.read_text("utf-8"))))):
                found.add(of_house)
    assert found == set(NAMED_IN)


def test_what_agents_share_names_none_of_them():
    shared = (path for path in Path(agents.__file__).parent.glob("*.py") if path.name != "__init__.py")
    assert [path.name for path in shared if any(map(NAMES.search, words_of(ast.parse(path.read_text("utf-8")))))] == []


def words_of(tree: ast.AST) -> Iterator[str]:
    """Yield the names and texts of code, without docstrings and comments."""
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = (node.body for node in ast.walk(tree) if isinstance(node, holders))
    docstrings = {id(body[0].value) for body in bodies if body and isinstance(body[0], ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                yield text
            case ast.Constant(value=bytes(text)):
                yield text.decode("utf-8", "replace")
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                yield name
            case ast.ImportFrom(module=str(name)) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
