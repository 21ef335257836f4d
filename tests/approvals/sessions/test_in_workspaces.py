"""Transcripts of agents inside workspaces: read below the home alone, whatever the agent puts there."""

import os

import pytest

from approvals.models import AgentSession, Follow
from approvals.sessions import following
from workspaces.host import paths
from workspaces.store import LocalTree

from .conftest import ClaudeFile, said, told

pytestmark = pytest.mark.django_db(transaction=True)
TOLD = "/home/agent/.claude/projects/-workspace/s1.jsonl"


@pytest.fixture
def home(workspace, settings, tmp_path):
    """The folder of this host that the workspace's programs see as /home/agent."""
    settings.HANDRAIL_HOME = tmp_path
    found = paths.folder_of(workspace.pk) / "home"
    found.mkdir(parents=True)
    return found


@pytest.fixture
def inside(hook, agent_token, workspace):
    """`inside(path)`: a hook of an agent in the workspace tells of its transcript."""
    in_it = [("X-Handrail-Workspace", workspace.key)]
    return lambda path=TOLD: hook(agent_token, told("SessionStart", transcript_path=path), headers=in_it)


def read() -> tuple[int, str]:
    """(messages, problem) of importing the one followed file."""
    follow = Follow.objects.get()
    return following.read_on(follow), follow.problem


def test_a_transcript_in_the_home_is_followed(home, inside):
    file = ClaudeFile(home / ".claude/projects/-workspace/s1.jsonl")
    file.write(file.row("user", "go"))
    inside()
    assert read() == (1, "")
    file.write(file.row("user", "on"))
    assert (read(), said()) == ((1, ""), [("user", "text", "go"), ("user", "text", "on")])


@pytest.mark.parametrize(
    "path",
    [
        "/root/.claude/projects/x/s1.jsonl",
        "/home/agent/../../root/.claude/projects/x/s1.jsonl",
        "/home/agent/.ssh/s1.jsonl",
        "/home/agent/.claude/projects/x/other.jsonl",
        "/workspace/.claude/projects/x/s1.jsonl",
    ],
)
def test_no_other_path_is_followed(home, inside, path):
    inside(path)
    assert AgentSession.objects.exists()
    assert not Follow.objects.exists()


def test_no_symlink_leads_out_of_the_home(home, inside, tmp_path):
    private = ClaudeFile(tmp_path / "private/projects/-workspace/s1.jsonl")
    private.write(private.row("user", "private"))
    inside()
    (home / ".claude").symlink_to(tmp_path / "private")
    assert (read()[0], bool(Follow.objects.get().problem)) == (0, True)
    (home / ".claude").unlink()
    (home / ".claude/projects/-workspace").mkdir(parents=True)
    link = home / ".claude/projects/-workspace/s1.jsonl"
    link.symlink_to(private.path)
    assert (read()[0], bool(Follow.objects.get().problem)) == (0, True)
    link.unlink()
    os.mkfifo(link)
    assert (read(), said()) == ((0, "it is no regular file"), [])


def test_a_transcript_that_is_too_large_or_rewritten_too_often_is_reported(home, inside, monkeypatch):
    monkeypatch.setattr(following, "MAX_FILE", 300)
    file = ClaudeFile(home / ".claude/projects/-workspace/s1.jsonl")
    file.write(file.row("user", "x" * 300))
    inside()
    assert read() == (1, "")
    file.write(file.row("user", "more"))
    assert read() == (0, following.TOO_LARGE)
    AgentSession.objects.update(branch=following.MAX_BRANCHES)
    file.path.unlink()
    file.write(file.row("user", "again"))
    assert read() == (0, following.TOO_OFTEN)


def test_the_home_is_read_as_the_run_ends(home, inside, workspace):
    file = ClaudeFile(home / ".claude/projects/-workspace/s1.jsonl")
    file.write(file.row("user", "the last words"))
    inside()
    following.read_home(workspace, LocalTree(paths.tree_of(workspace), home=home))
    assert said() == [("user", "text", "the last words")]


def test_the_disk_of_a_guest_is_read_only_as_its_run_ends(home, inside, workspace):
    file = ClaudeFile(home / ".claude/projects/-workspace/s1.jsonl")
    file.write(file.row("user", "go"))
    inside()
    type(workspace.environment).objects.update(driver="microvm")
    assert (read(), said()) == ((0, ""), [])
    following.read_home(workspace, LocalTree(paths.tree_of(workspace), home=home))
    assert said() == [("user", "text", "go")]


def test_a_sweep_takes_up_in_the_next_round_what_it_did_not_come_to(claude_file, followed, monkeypatch):
    claude_file.write(claude_file.row("user", "go"))
    followed(claude_file.path)
    monkeypatch.setattr(following, "_swept_at", -following.INTERVAL)
    monkeypatch.setattr(following, "_left", [])
    monkeypatch.setattr(following, "MAX_SWEEP", 0)
    following.sweep()
    assert (said(), following._left) == ([], [Follow.objects.get().pk])
    monkeypatch.setattr(following, "_swept_at", -following.INTERVAL)
    monkeypatch.setattr(following, "MAX_SWEEP", 60)
    following.sweep()
    assert (said(), following._left) == ([("user", "text", "go")], [])
