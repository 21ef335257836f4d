"""What knows the agents that a folder and a line each have added; `test_new_agent.py` runs this with two of them."""

import json
import os
import stat
import subprocess
import sys
import time
from datetime import UTC, datetime

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse

from approvals.agent_runs import requests
from approvals.agents.hooks import FOLDER_HOOKS, MACHINE_HOOKS
from approvals.agents.program import Start
from approvals.agents.programs import LAUNCHERS
from approvals.agents.transcripts import CONVERSATIONS
from approvals.connect import agent_home, folder_hooks
from approvals.connect.connections import connection_of
from approvals.connect.proof.scratch import Connected, Scratch
from approvals.models import Action, AgentRun, AgentSession
from approvals.past.transcripts import LABELS, Reader
from approvals.policy import classify, default_policy, load_policy
from approvals.policy.paths import is_secret
from approvals.policy.trust import NEVER
from approvals.registered import runner
from tests.approvals.agents.codex.test_trust import PROGRAM
from tests.approvals.conftest import LIST, before, full
from tests.pages.conftest import make_workspace
from workspaces import extensions
from workspaces.drivers.program_archive import init_archive
from workspaces.envelope.path_kinds import is_protected_path, is_secret_path
from workspaces.models import Environment, Runner, State, Workspace
from workspaces.provisioning import agent_programs

NAME, TITLE = "sample", "Sample"
IN_FOLDER = "folder-sample"  # its hook goes into the connected folder
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def home(tmp_path, monkeypatch, settings):
    """A home with the agent's program on the PATH, which trusts a hook by its hash as Codex does."""
    settings.HANDRAIL_HOME = tmp_path / "handrail"
    program = tmp_path / "bin" / NAME
    program.parent.mkdir()
    program.write_text(PROGRAM.replace(".codex", f".{NAME}"))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    path = tmp_path / "home"
    path.mkdir()
    monkeypatch.setenv("HOME", str(path))
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return path


@pytest.fixture
def connected(home, team, agent, settings):
    """A folder as `connect` leaves it."""
    folder = home.parent / "shop"
    folder.mkdir()
    environment = Environment.objects.create(team=team, name="folder-shop", driver="folder", minimum_isolation="none")
    workspace = Workspace.objects.create(
        team=team,
        key="shop",
        environment=environment,
        state=State.READY,
        source={"path": str(folder)},
        created_by_agent=agent,
        runner=Runner.objects.get_or_create(host=settings.HANDRAIL_HOST_NAME)[0],
    )
    dialect = folder_hooks.dialects.find(NAME)
    agent_home._write_connection(dialect, agent_home.connection_of(dialect), team, agent)
    agent_home.put_hook_in(dialect, agent_home.connection_of(dialect))
    agent_home._trusted(dialect, agent_home.connection_of(dialect), folder)
    connection_of(workspace).write_text(json.dumps({"agent": NAME, "path": str(folder), "connected": True}))
    return workspace


def test_its_hook_is_read_and_answered(hook, agent_token):
    answer = full(hook(agent_token, before(LIST), path=f"/hooks/{NAME}"))
    assert (answer.status, answer.json["hookSpecificOutput"]["permissionDecision"]) == (200, "allow")
    assert Action.objects.get().tool == "Bash"


def test_its_sessions_become_conversations(hook, agent_token):
    hook(agent_token, before(LIST), path=f"/hooks/{NAME}")
    assert AgentSession.objects.get().dialect == NAME
    assert NAME in CONVERSATIONS


def test_the_pages_offer_it(browser_of, alice):
    page = browser_of(alice).get(reverse("connect"), {"tab": NAME}).content.decode()
    assert f"manage.py connect {NAME} /path/to/your/folder" in page
    assert TITLE in page


@pytest.mark.parametrize("command", ["connect", "prove"])
def test_the_commands_take_its_name(command, home, team):
    with pytest.raises(CommandError) as refused:
        call_command(command, NAME, str(home / "nothing"))
    assert "invalid choice" not in str(refused.value)


def test_its_hook_is_put_in_trusted_checked_and_taken_out(home, connected):
    settings, config = home / ".sample/hooks.json", home / ".sample/config.toml"
    assert folder_hooks.why_not_gated(connected) == ""
    assert "handrail" in settings.read_text()
    assert "trusted_hash" in config.read_text()
    settings.unlink()
    assert folder_hooks.why_not_gated(connected) != ""
    folder_hooks.put_in(connected)
    assert folder_hooks.why_not_gated(connected) == ""


def test_a_hook_of_a_folder_is_put_in_checked_and_taken_out(home, connected):
    folder, connection = home.parent / "shop", connection_of(connected)
    file = folder / FOLDER_HOOKS[IN_FOLDER].settings_file
    facts = {"agent": IN_FOLDER, "before": None, "made_folder": True, "connected": True}
    connection.write_text(json.dumps(facts))
    folder_hooks.put_in(connected)
    assert folder_hooks.why_not_gated(connected) == ""
    assert str(connection) in file.read_text()
    file.unlink()
    assert "is gone" in folder_hooks.why_not_gated(connected)
    folder_hooks.put_in(connected)
    FOLDER_HOOKS[IN_FOLDER].take_out(folder, connection)
    assert not file.exists()


def test_an_agent_with_a_machine_hook_can_be_connected_for_all_users():
    assert IN_FOLDER in MACHINE_HOOKS
    with pytest.raises(CommandError, match=f"--system is for .*{IN_FOLDER}"):
        call_command("connect", NAME, system=True)


def test_its_settings_are_copied_for_a_proof_and_its_program_is_sent_to_the_scripted_model(home, connected, tmp_path):
    dialect = folder_hooks.dialects.find(NAME)
    place = tmp_path / "scratch"
    place.mkdir()
    scratch = Scratch(place, "http://127.0.0.1:1/gate", "http://127.0.0.1:1/reports")
    scratch.fill(dialect, Connected(home, home.parent / "shop", agent_home.connection_of(dialect)))
    assert str(scratch.connections["gate"]) in (scratch.home / ".sample/hooks.json").read_text()
    assert "trusted_hash" in (scratch.home / ".sample/config.toml").read_text()


@pytest.mark.parametrize(
    ("startup_file", "credentials", "program"),
    [
        # An entry below it, since a file of the name `auth.json` holds secrets in any folder.
        (".sample/config.toml", ".sample/auth.json/entry", NAME),
        (".folder-sample/settings.json", ".folder-sample.json", "claude"),
    ],
)
def test_its_files_are_protected_and_its_program_cannot_be_trusted(startup_file, credentials, program):
    path = f"/workspace/{startup_file}"
    assert classify("Write", {"file_path": path, "content": ""}, policy=load_policy(default_policy())).tier == "high"
    assert is_protected_path(startup_file.encode())
    assert is_secret(credentials.split("/"))
    assert is_secret_path(credentials.encode())
    assert program in NEVER


def test_its_files_are_protected_in_a_workspace(tmp_path):
    archive = tmp_path / "init.pyz"
    archive.write_bytes(init_archive())
    code = "import sys; sys.path.insert(0, sys.argv[1]); from init.envelope.sensitive_names import *; print(*NAMES)"
    names = "PROTECTED, *SECRET_NAMES, *map('/'.join, SECRET_PAIRS)"
    command = [sys.executable, "-I", "-S", "-c", code.replace("NAMES", names), str(archive)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert {".sample", ".sample/auth.json", ".folder-sample", ".folder-sample.json"} <= set(found.split())


def test_its_past_sessions_are_read(tmp_path):
    folder = tmp_path / ".sample/sessions/2026/11/29"
    folder.mkdir(parents=True)
    at = datetime.fromtimestamp(time.time() - 60, UTC).isoformat()
    call = {"type": "function_call", "name": "shell", "call_id": "1", "arguments": '{"command": ["ls"]}'}
    rows = [("session_meta", {"id": "1", "cwd": "/srv/calc"}), ("response_item", call)]
    lines = (json.dumps({"timestamp": at, "type": kind, "payload": payload}) for kind, payload in rows)
    (folder / "rollout-1-1.jsonl").write_text("\n".join(lines) + "\n")
    assert Reader(tmp_path).read().agents == {NAME: 1}
    assert LABELS[NAME] == TITLE


def test_its_program_is_installed_named_and_started(team, agent, settings, tmp_path):
    settings.HANDRAIL_HOME = tmp_path
    program, version = agent_programs.parse(f"{NAME}@1.2.3")
    assert (program.title, program.package, program.link) == (TITLE, "@openai/sample", NAME)
    link = agent_programs.folder_of(program, version) / "bin" / program.link
    link.parent.mkdir(parents=True)
    link.write_text("")
    workspace = make_workspace(team, agent, "repo-task-1")
    access = {"openai": {"secret": "A_KEY", "models": ["m"]}}
    fields = {"agent_programs": [f"{NAME}@1.2.3"], "model_access": access}
    Environment.objects.filter(pk=workspace.environment_id).update(**fields)
    workspace.environment.refresh_from_db()
    assert requests.check(workspace.environment, team, {"task": "Go."})["program"] == f"{NAME}@1.2.3"
    start, path = Start("Go.", "", "s", True, "m", True, "sandbox"), agent_programs.path_inside(f"{NAME}@1.2.3")
    assert path in LAUNCHERS[NAME].argv(path, start)
    assert AgentRun(program=f"{NAME}@1.2.3").program_title == f"{TITLE} 1.2.3"


def test_its_gate_is_among_the_files_of_a_workspace(team, agent, monkeypatch):
    for name in ("kinds", "sweeps", "system_files"):
        monkeypatch.setattr(extensions, name, type(getattr(extensions, name))())
    runner.register()
    workspace, files = make_workspace(team, agent, "repo-task-1"), {}
    for each in extensions.system_files:
        files |= each(workspace)
    assert f" gate {NAME} " in files[f"{NAME}/requirements.toml"].decode()
