"""A program that was put under the name of a known one asks: from outside."""

import pytest

from approvals.policy import Policy, classify
from workspaces.models import Workspace
from workspaces.runner.bound_files import resolved_programs

from .actions.test_bound_files import run  # noqa: F401 (fixture)
from .broker.test_broker import Brokered

PLANTED = (
    "mkdir -p ~/.local/bin; printf '#!/bin/sh\\ntouch /workspace/ran\\n' > ~/.local/bin/{0}; chmod +x ~/.local/bin/{0}"
)


@pytest.fixture(scope="module")
def desk(product):
    return Brokered(product)


@pytest.fixture
def plant(run):  # noqa: F811
    """`plant("wc")`: a program of this name in the agent's own folder, which is first in its PATH."""
    made = []

    def put(name):
        made.append(name)
        run(PLANTED.format(name))

    yield put
    for name in made:
        run(f"rm -rf ~/.local/bin/{name}")


def test_a_reading_program_is_the_one_that_its_name_says(desk, plant):
    desk.put("a.txt", b"one\n")
    before = desk.over(desk.ask("Bash", {"command": "wc -l a.txt"}))
    assert (before["status"], before["tier"]) == ("succeeded", "low")
    plant("wc")
    for command in ("wc -l a.txt", "cat a.txt | wc -l", "timeout 5 wc a.txt", "ls && wc a.txt"):
        asked = desk.ask("Bash", {"command": command})
        assert asked["status"] == "pending"
        assert "would run /home/agent/.local/bin/wc, not the program that it names." in " ".join(asked["reasons"])
    assert desk.file("ran") is None


def test_a_link_to_another_program_of_the_system_is_another_program(desk, run):  # noqa: F811
    desk.put("a.txt", b"one\n")
    run("mkdir -p ~/.local/bin; ln -s /usr/bin/tail ~/.local/bin/tail; ln -s /usr/bin/bash ~/.local/bin/head")
    links = [desk.ask("Bash", {"command": f"{name} a.txt"}) for name in ("tail", "head")]
    run("rm ~/.local/bin/head ~/.local/bin/tail")
    assert (desk.over(links[0])["status"], links[1]["status"]) == ("succeeded", "pending")


def test_a_fifo_under_the_name_is_no_program(desk, run):  # noqa: F811
    run("mkdir -p ~/.local/bin; mkfifo ~/.local/bin/head")
    done = desk.over(desk.ask("Bash", {"command": "head -n 1 a.txt"}))
    run("rm ~/.local/bin/head")
    assert done["status"] == "succeeded"


def test_a_build_tool_may_be_the_projects_own(desk, plant):
    plant("pytest")
    assert desk.over(desk.ask("Bash", {"command": "pytest -q"}))["tier"] == "medium"


@pytest.mark.parametrize(
    ("known", "tier"),
    [
        ({"git": "/workspace/bin/git"}, "high"),
        ({"ls": "/workspace/bin/ls"}, "low"),
        ({}, "low"),
        ({"git": ""}, "low"),
    ],
)
def test_the_policy_takes_a_path_for_each_name(known, tier):
    command = {"command": "git status"}
    assert classify("Bash", command, policy=Policy(), context={"resolves_to": known}).tier == tier


def test_in_a_connected_folder_only_its_own_folders_on_the_path_count(tmp_path, monkeypatch):
    folder, home = tmp_path / "calc/bin", tmp_path / "home/bin"
    for place in (folder, home):
        place.mkdir(parents=True)
    (folder / "wc").write_text("#!/bin/sh\n")
    (folder / "cat").symlink_to("/usr/bin/bash")
    (folder / "ls").symlink_to("/usr/bin/ls")
    (home / "rg").write_text("#!/bin/sh\n")
    monkeypatch.setenv("PATH", f"{home}:{folder}:/usr/bin")
    workspace = Workspace(source={"path": str(tmp_path / "calc")})
    found = resolved_programs(workspace, None, "", ["wc", "cat", "ls", "rg", "head"], 5.0)
    assert found == {"wc": str(folder / "wc"), "cat": str(folder / "cat")}
