"""The hook's line in a folder and its user's settings, run by a shell while Handrail's own files are gone."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from approvals.agents.claude_code import folder_line
from approvals.agents.claude_code import own_settings as claude_own_settings
from approvals.agents.claude_code import settings as claude_settings
from approvals.agents.hook_programs import PROGRAM

ODD = [
    "plain", "with space", "it's", 'a"b', "$HOME", "`id`", "star*", "-n", "new\nline", "end\n", "[a]", "back\\slash",
    "ü",
]  # fmt: skip
SHELLS = (["sh"], ["dash"], ["bash"], ["bash", "--posix"], ["busybox", "sh"])
DENIED = 2
PROGRAM_GONE = {"program": Path("/gone/command_hook.py")}


@pytest.fixture(params=[each for each in SHELLS if shutil.which(each[0])], ids=" ".join)
def shell(request) -> list[str]:
    return request.param


@pytest.fixture
def ask(shell):
    """`ask(folder, cwd)`: the exit status of the line for `folder` in a session in `cwd`, with what is gone."""

    def run(folder, cwd, *, gone=PROGRAM_GONE, role="gate", project=None, event_cwd=None, connection="/gone.json"):
        line = folder_line.line(Path(connection), role, Path(folder), **gone)
        event = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "cwd": str(event_cwd or cwd)}
        environment = {"PATH": "/nowhere"} | ({} if project == "" else {"CLAUDE_PROJECT_DIR": str(project or cwd)})
        done = subprocess.run(
            [shutil.which(shell[0]), *shell[1:], "-c", line],
            input=json.dumps(event), capture_output=True, text=True, cwd=cwd, env=environment,
        )  # fmt: skip
        assert done.stdout == ""
        assert done.stderr or done.returncode != DENIED
        return done.returncode

    return run


def made(place: Path) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    return place


@pytest.fixture(params=["program", "python", "library"])
def gone(request, tmp_path) -> dict:
    """What of Handrail is gone: its code, its Python, or a file that its Python needs to start."""
    broken = tmp_path / "broken-python"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    pythons = {"program": PROGRAM_GONE, "python": {"python": "/gone/python"}, "library": {"python": str(broken)}}
    return pythons[request.param]


@pytest.mark.parametrize("name", ODD)
def test_without_the_program_calls_elsewhere_pass_and_calls_below_do_not(ask, tmp_path, name):
    folder = made(tmp_path / name)
    for elsewhere in (tmp_path, Path("/"), made(tmp_path / "other" / name), made(tmp_path / f"{name}-other")):
        assert ask(folder, elsewhere) == 0
    for below in (folder, made(folder / "deep" / name)):
        assert ask(folder, below) == DENIED


def test_the_line_decides_when_the_program_or_python_is_gone(ask, tmp_path, gone):
    folder, elsewhere = made(tmp_path / "shop"), made(tmp_path / "elsewhere")
    assert (ask(folder, elsewhere, gone=gone), ask(folder, folder, gone=gone)) == (0, DENIED)
    assert ask(folder, elsewhere, gone=gone, role="report") == 0
    assert ask(folder, folder, gone=gone, role="report") == 1  # 2 would refuse a prompt, or the end of a turn


def test_with_the_program_in_place_its_own_answer_counts(ask, tmp_path):
    folder, elsewhere = made(tmp_path / "shop"), made(tmp_path / "elsewhere")
    assert (ask(folder, elsewhere, gone={}), ask(folder, folder, gone={})) == (0, DENIED)
    # A session whose event alone tells that it works below the folder; its connection is gone.
    assert ask(folder, elsewhere, gone={}, event_cwd=folder) == DENIED


def test_a_session_that_began_below_the_folder_stays_gated(ask, tmp_path):
    folder, elsewhere = made(tmp_path / "shop"), made(tmp_path / "elsewhere")
    assert ask(folder, elsewhere, project=made(folder / "sub")) == DENIED
    assert ask(folder, folder, project=elsewhere) == DENIED
    assert ask(folder, elsewhere, project=tmp_path / "no-such-folder") == DENIED  # which may have been below
    assert ask(folder, elsewhere, project="") == 0


def test_a_symlink_into_the_folder_is_below_it(ask, tmp_path):
    folder = made(tmp_path / "shop")
    made(folder / "sub")
    (tmp_path / "link").symlink_to(folder / "sub")
    assert ask(folder, tmp_path / "link") == DENIED
    assert ask(folder, tmp_path, project=tmp_path / "link") == DENIED
    (folder / "out").symlink_to(made(tmp_path / "elsewhere"))
    assert ask(folder, folder / "out") == 0


def git(cwd: Path, *arguments: str):
    own = ["-c", "user.name=T", "-c", "user.email=t@e", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *own, *arguments], cwd=cwd, check=True, capture_output=True)


@pytest.mark.parametrize("name", ["shop", "it's odd"])
def test_a_linked_worktree_of_the_folder_is_below_it_and_one_of_another_repository_is_not(ask, tmp_path, name):
    folder, other = made(tmp_path / name), made(tmp_path / "other")
    for repository in (folder, other):
        git(repository, "init", "-q", ".")
        git(repository, "commit", "-q", "--allow-empty", "-m", "one")
        git(repository, "worktree", "add", "-q", "-b", "beside", str(tmp_path / f"{repository.name}-beside"))
    git(other, "submodule", "add", "-q", str(folder), "sub")
    assert ask(folder, made(tmp_path / f"{name}-beside" / "deep")) == DENIED
    assert ask(folder, made(tmp_path / "other-beside" / "deep")) == 0
    assert ask(folder, other / "sub") == 0


def test_the_hooks_program_gets_no_variable_of_the_session(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import json, os; print(json.dumps(dict(os.environ)))")
    line = folder_line.line(Path("/c.json"), "gate", tmp_path, program=program)
    given = {"OPENSSL_CONF": "/evil", "HOSTALIASES": "/evil", "PYTHONPATH": "/evil", "CLAUDE_PROJECT_DIR": "/a b'c"}
    done = subprocess.run(["/bin/sh", "-c", line], env=given, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"LC_ALL": "C.UTF-8", "CLAUDE_PROJECT_DIR": "/a b'c"}


def test_the_line_names_its_program_and_python_by_path():
    line = folder_line.line(Path("/c.json"), "gate", Path("/f"))
    assert f" {sys.executable} -IS {PROGRAM} /c.json gate below=/f && exit" in line


@pytest.mark.parametrize("file", ["settings.json", "settings.local.json"])
@pytest.mark.parametrize("name", ["LD_PRELOAD", "LD_LIBRARY_PATH", "BASH_ENV", "ENV", "CLAUDE_CODE_SHELL_PREFIX"])
def test_a_repository_whose_settings_put_code_around_the_hook_is_a_problem(tmp_path, file, name):
    nested = made(tmp_path / "nested/.claude")
    for place, cwd in ((made(tmp_path / ".claude"), None), (nested, tmp_path / "nested")):
        (place / file).write_text(json.dumps({"env": {name: "/repo/evil", "TZ": "UTC"}}))
        said = claude_own_settings.code_around_hooks(tmp_path, cwd)
        assert said.startswith(f"{place / file} sets {name}, which ")
        if cwd is None:
            assert claude_settings.problem(tmp_path, {}) == said
        (place / file).write_text(json.dumps({"env": {name: "", "TZ": "UTC"}}))
        assert claude_own_settings.code_around_hooks(tmp_path, cwd) == ""


@pytest.mark.parametrize("text", ["{}", '{"env": []}', '{"env": {"PATH": "/x", "NODE_ENV": "test"}}', "no json"])
def test_other_settings_cannot_put_code_around_the_hook(tmp_path, text):
    (made(tmp_path / ".claude") / "settings.json").write_text(text)
    assert claude_own_settings.code_around_hooks(tmp_path) == ""
