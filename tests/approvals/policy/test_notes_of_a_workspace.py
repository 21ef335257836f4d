"""Agents write the notes of a workspace as they work; everything else in its folder .handrail asks a person."""

import pytest

from approvals.policy import classify, load_policy

NOTES = "/workspace/.handrail/notes.md"
BUILT_IN = load_policy("")


def judged(tool, more=None, **arguments):
    return classify(tool, arguments, policy=BUILT_IN, **more or {})


@pytest.mark.parametrize("command", ["echo next >> .handrail/notes.md", f"printf x > {NOTES}", "rm .handrail/notes.md"])
def test_a_command_writes_them_without_asking(command):
    verdict = judged("Bash", command=command)
    assert (verdict.tier, verdict.undo) == ("medium", "yes")


def test_a_command_in_an_envelope_which_closes_the_folder_asks():
    held = {"context": {"held": True}}
    assert judged("Bash", held, command="echo next >> .handrail/notes.md").tier == "high"
    assert judged("Write", held, file_path=NOTES, content="next").tier == "medium"


@pytest.mark.parametrize("path", [NOTES, ".handrail/notes.md", "src/../.handrail/notes.md"])
def test_a_tool_of_the_agent_writes_them_without_asking(path):
    assert judged("Write", file_path=path, content="next").tier == "medium"


@pytest.mark.parametrize(
    "command",
    [
        "echo x > .handrail/policy.toml",
        "mv .handrail/notes.md .handrail/policy.toml",
        "echo x > .handrail/Notes.md",
        "echo x > .handrail/notes.md/x",
        "echo x > src/.handrail/notes.md",
        "sed -i s/a/b/ .handrail/*.md",
        "rm -r .handrail",
    ],
)
def test_everything_else_in_the_folder_asks(command):
    assert judged("Bash", command=command).tier == "high"


def test_notes_that_are_a_link_to_something_else_ask():
    links = {"context": {"symlinks": {".handrail/notes.md": ".git/config"}}}
    assert judged("Bash", links, command="echo x >> .handrail/notes.md").tier == "high"
    links = {"context": {"symlinks": {"todo.md": ".handrail/policy.toml"}}}
    assert judged("Bash", links, command="echo x >> todo.md").tier == "high"


def test_in_a_connected_folder_they_ask():
    where = {"workspace_root": "/home/lena/shop", "cwd": "/home/lena/shop"}
    assert judged("Bash", where, command="echo x >> .handrail/notes.md").tier == "high"
    assert judged("Write", where, file_path="/home/lena/shop/.handrail/notes.md", content="x").tier == "high"
