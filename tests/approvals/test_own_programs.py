"""The command lines of what Handrail itself runs in a Run: whatever the home holds, nothing stands in for a program."""

import ast
import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from django.conf import settings

from approvals.agents import hook_programs
from approvals.agents.program import Start
from approvals.agents.programs import LAUNCHERS
from approvals.hooks import command_hook
from tests.pages.conftest import make_workspace
from tests.support import CHECKOUT
from workspaces import extensions
from workspaces.drivers import own_programs
from workspaces.drivers.capabilities import TABLE
from workspaces.models import Environment
from workspaces.provisioning.git import running
from workspaces.runner import programs
from workspaces.runner.code_host import reads
from workspaces.runner.run_spec import system_files_of
from workspaces.services import git_remotes, host_programs

pytestmark = pytest.mark.django_db
OF_RUNS = sorted(set(TABLE) - {"folder"})
SAFE = ("/usr/", "/etc/", "/opt/agents/", "/.handrail/", "/bin/")  # what no program of a Run can write
PYTHON = re.compile(r"(\S*/)?python[0-9.]*")


def commands_in(told) -> list[str]:
    """All values of `command` in settings, wherever they are."""
    if isinstance(told, dict):
        own = [told["command"]] if isinstance(told.get("command"), str) else []
        return own + [each for value in told.values() for each in commands_in(value)]
    return [each for value in told for each in commands_in(value)] if isinstance(told, list) else []


@pytest.fixture(params=OF_RUNS)
def workspace(request, team, agent):
    from approvals.registered import runner

    if not extensions.system_files:
        runner.register()
    made = make_workspace(team, agent, "own-programs")
    fields = {"driver": request.param, "agent_programs": ["opencode@1.2.3", "codex@1.2.3", "claude-code@1.2.3"]}
    Environment.objects.filter(pk=made.environment_id).update(**fields)
    made.environment.refresh_from_db()
    return made


def test_each_line_in_the_systems_settings_names_its_programs_and_its_environment(workspace):
    lines = []
    for path, content in system_files_of(workspace).items():
        if path.endswith(".json"):
            lines += commands_in(json.loads(content))
        elif path.endswith(".toml"):
            lines += commands_in(tomllib.loads(content.decode()))
        elif path.endswith(".js"):
            found = json.loads(re.search(r"const LINE = (\[.*\])", content.decode())[1])
            assert found[: len(own_programs.python(workspace.environment.driver))] == own_programs.python(
                workspace.environment.driver
            )
            assert all(word.startswith(("/", "-", "run:")) for word in found)
    assert len(lines) > 10
    start = shlex.join([*own_programs.ENVIRONMENT, *own_programs.python(workspace.environment.driver), "-I", "-S"])
    for line in lines:
        assert line.startswith(f"{start} /etc/"), line
        assert "run:http://handrail.internal " in line
        assert (" gate" in line) == line.endswith("exit 2; }"), line


def test_no_hook_of_a_run_asks_over_http_from_the_agents_own_process(workspace):
    """There the home's proxy variables would choose who answers."""
    assert b'"type": "http"' not in b"".join(system_files_of(workspace).values())


def test_each_agents_program_is_started_by_its_path(workspace):
    start = Start("Go.", "", "s", True, "m", True, workspace.environment.driver)
    for name, launcher in LAUNCHERS.items():
        line = launcher.argv(f"/opt/agents/{name}/1.2.3/bin/{name}", start)
        assert line[0].startswith(SAFE), line
        assert all(word.startswith("/") for word in line if PYTHON.fullmatch(word)), line


def test_bash_is_never_looked_up():
    assert programs.with_shell(["bash", "-c", "x"], "/bin/bash") == ["/bin/bash", "-c", "x"]
    assert programs.with_shell(["bash", "-c", "x"], "/bin/sh") == ["/bin/sh", "-c", "x"]
    assert programs.with_shell(["make"], "/bin/bash") == ["make"]


def test_no_module_starts_python_without_a_path():
    """A list that begins with a Python without a path, or a Python on the way to a program, is found here."""
    found = []
    for folder in ("approvals", "workspaces", "dashboard"):
        for path in Path(CHECKOUT, folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.List | ast.Tuple) and len(node.elts) > 1:
                    first, second = (getattr(each, "value", None) for each in node.elts[:2])
                    is_line = isinstance(second, str) and second.startswith("-")
                    if isinstance(first, str) and PYTHON.fullmatch(first) and is_line and not first.startswith("/"):
                        found.append(f"{path.relative_to(CHECKOUT)}:{node.lineno}")
    assert found == []


# Programs that are named without a path, and the environment whose PATH finds them.
BY_NAME = {
    "approvals/agents/folder_git.py": lambda: settings.HANDRAIL_CODE_HOST_PATH,
    "approvals/agents/codex/trust.py": None,  # the person's Codex, as their shell finds it
    "workspaces/drivers/microvm/disks.py": None,  # mke2fs, by the runner's own PATH
    "workspaces/provisioning/npm.py": None,  # npm, by the runner's own PATH
    "workspaces/provisioning/git/running.py": lambda: running.LOCAL["PATH"],
    "workspaces/store/mount/unmounting.py": None,  # fusermount3, by the PATH of the process that mounts
    "workspaces/services/git_remotes.py": lambda: git_remotes.QUIET["PATH"],
}
STARTS = ("run", "Popen", "check_output", "check_call", "create_subprocess_exec", "execvp", "execvpe")


def _is_git_of_a_probe(node) -> bool:
    """Return whether it is `Git.run` of runner/git/probe.py, whose words follow git's own path."""
    return getattr(node.func.value, "id", "") == "git"


def _lines_by_name(tree) -> list[int]:
    """Return the lines with a list of words, or a call that starts a program, that begins with a bare name."""
    found = []
    for node in ast.walk(tree):
        words = getattr(node, "args", ()) if isinstance(node, ast.Call) else ()
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in STARTS and words:
            given = words[0].elts if isinstance(words[0], ast.List) else words
            first = getattr(given[0], "value", None) if given else None
            if isinstance(first, str) and not first.startswith("/") and not _is_git_of_a_probe(node):
                found.append(node.lineno)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.List) and node.value.elts:
            first = getattr(node.value.elts[0], "value", None)
            if getattr(node.targets[0], "id", "") in ("argv", "line", "command") and isinstance(first, str):
                found += [node.lineno] * (not first.startswith(("/", "-")))
    return found


def test_no_program_is_found_by_a_path_that_an_agent_writes():
    """The runner and `connect` name their own programs by their path, or give them a PATH of the system's folders."""
    found = set()
    for folder in ("approvals", "workspaces"):
        for path in Path(CHECKOUT, folder).rglob("*.py"):
            source = path.read_text("utf-8")
            if "subprocess" in source and _lines_by_name(ast.parse(source)):
                found.add(str(path.relative_to(CHECKOUT)))
    assert found == set(BY_NAME)
    for path in filter(None, BY_NAME.values()):
        assert all(each.startswith(("/usr/", "/bin", "/home/linuxbrew/")) for each in path().split(":"))


def test_reads_at_the_code_host_name_their_program_and_their_path(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin")
    for name in ("LD_PRELOAD", "PYTHONPATH", "GIT_DIR", "GIT_SSH_COMMAND", "GIT_CONFIG_GLOBAL"):
        monkeypatch.setenv(name, str(tmp_path))
    Path(tmp_path, "git").write_text("#!/bin/sh\n")
    Path(tmp_path, "git").chmod(0o755)
    assert str(host_programs.find("git")).startswith("/usr/")
    given = reads.environment({}, tmp_path)
    assert str(tmp_path) not in given["PATH"].split(":")
    assert not {"LD_PRELOAD", "PYTHONPATH", "GIT_DIR", "GIT_SSH_COMMAND"} & set(given)
    assert given.get("GIT_CONFIG_GLOBAL") != str(tmp_path)


def test_a_gate_whose_interpreter_is_missing_says_so_and_blocks(monkeypatch):
    monkeypatch.setattr(own_programs, "python", lambda driver: ["/usr/bin/python-that-is-missing"])
    line = own_programs.shell_line(own_programs.command("sandbox", "/etc/x.py", "run:http://h", "gate"), is_gate=True)
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, input="{}")
    assert done.returncode == 2
    assert done.stderr.endswith("Handrail's hook did not run, so nothing is allowed.\n")


def test_a_hook_with_an_empty_environment_takes_its_token_from_its_parent():
    words = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        f"import runpy; m = runpy.run_path({command_hook.__file__!r}, run_name='m')",
    ]
    words[-1] += "; print(m['read_connection']('run:http://h'))"
    line = f"{shlex.join([*own_programs.ENVIRONMENT, *words])} || exit 2"
    given = {"HANDRAIL_TOKEN": "hr_x", "HANDRAIL_URL": "http://elsewhere"}
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, env=given)
    assert "'address': 'http://h', 'token': 'hr_x'" in done.stdout, done.stderr


def test_the_bundle_of_containers_runs_the_hook_and_the_client(tmp_path):
    from workspaces.drivers.docker import bundle

    place = bundle.find_or_make(tmp_path)
    for name, content in hook_programs.acp_files().items():
        (tmp_path / "acp").mkdir(exist_ok=True)
        (tmp_path / "acp" / name).write_bytes(content)
    python = [word.replace(bundle.AT, str(place)) for word in own_programs.python("docker")]
    hook = subprocess.run(
        [*python, "-I", "-S", command_hook.__file__, "run:http://127.0.0.1:9", "gate"],
        capture_output=True, text=True, input="not JSON", env={"HANDRAIL_TOKEN": "x"},
    )  # fmt: skip
    assert (hook.returncode, "cannot read" in hook.stderr) == (2, True), hook.stderr
    client = subprocess.run([*python, "-I", "-S", tmp_path / "acp"], capture_output=True, text=True, env={})
    assert "ModuleNotFoundError" not in client.stderr, client.stderr
    assert client.returncode != 0
