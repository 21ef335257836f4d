"""Copies in the bucket of what a host alone would have: recordings of ended programs, and programs of agents."""

import itertools
import os

import pytest

from dashboard.database import clock
from dashboard.models import Actor
from dashboard.problems import Problem
from tests.pages.conftest import make_command, workspace  # noqa: F401 - fixtures
from workspaces.host import paths, shared_files, store_keys
from workspaces.models import SharedAgentProgram, StoreKey
from workspaces.programs import kept_recordings, recordings
from workspaces.provisioning import agent_programs, shared_programs
from workspaces.store import sealing

AGENT = "codex@1.2.3"
PREFIXES = itertools.count()


@pytest.fixture
def home(s3, settings, tmp_path, monkeypatch):
    for name, value in s3.environ.items():
        monkeypatch.setenv(name, value)
    settings.HANDRAIL_BUCKET = s3.address(f"copies-{os.getpid()}-{next(PREFIXES)}")
    settings.HANDRAIL_HOME = tmp_path / "home"
    settings.HANDRAIL_HOME.mkdir()
    return settings.HANDRAIL_HOME


@pytest.fixture
def command(workspace, home):  # noqa: F811
    """An ended command with a recording on this host."""
    made = make_command(workspace, "true", exit_status=0, ended_at=clock.now())
    folder = paths.program_of(workspace.pk, made.operation_id)
    folder.mkdir(parents=True)
    for name, text in {"output": "one\ntwo\n", "claim": "{}", "index": "", "exit.json": '{"reason": "exited"}'}.items():
        (folder / name).write_text(text)
    os.utime(folder / "claim", (1000, 1000))
    return made


def folder_of(command):
    return paths.program_of(command.workspace_id, command.operation_id)


def without(folder):
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def test_a_recording_is_read_from_its_copy_once_its_folder_is_gone(command):
    folder = folder_of(command)
    assert kept_recordings.is_missing(folder)
    kept_recordings.keep(folder)
    assert not kept_recordings.is_missing(folder)
    without(folder)
    recording = recordings.of(command)
    assert b"".join(recording.pieces(4)) == b"two\n"
    assert recording.tail(4) == (b"two\n", 4)
    assert recording.began_at().timestamp() == 1000
    assert recording.status().exit.reason == "exited"
    fetched = recording.folder
    del recording
    assert not fetched.exists()


def test_a_team_with_a_key_has_its_files_encrypted(command, team, s3, settings):
    key = store_keys.add(team, by=Actor.system("test"))
    folder = folder_of(command)
    kept_recordings.keep(folder)
    without(folder)
    path = kept_recordings.path_of(command.workspace_id, command.operation_id)
    client = s3.client(settings.HANDRAIL_BUCKET.partition("//")[2].partition("/")[2])
    stored, _ = client.get(f"files/{path.relative_to(settings.HANDRAIL_HOME)}")
    assert (sealing.sealed_with(stored), b"two\n" in stored) == (key.id, False)
    assert b"".join(recordings.of(command).pieces(4)) == b"two\n"
    store_keys.add(team, by=Actor.system("test"))
    assert b"".join(recordings.of(command).pieces(4)) == b"two\n"
    client.put(f"files/{path.relative_to(settings.HANDRAIL_HOME)}", stored[:-1])
    with pytest.raises(Problem, match="was changed after it was encrypted"):
        list(recordings.of(command).pieces())
    StoreKey.objects.all().delete()
    with pytest.raises(Problem, match=f"is encrypted with the key {key.id.hex()}"):
        list(recordings.of(command).pieces())


def test_a_recording_that_was_deleted_while_it_was_copied_leaves_no_copy(command, monkeypatch):
    folder, keep = folder_of(command), shared_files.keep

    def deleting(path, team_id):
        keep(path, team_id)
        without(folder)

    monkeypatch.setattr(shared_files, "keep", deleting)
    kept_recordings.keep(folder)
    assert not shared_files.is_kept(kept_recordings.path_of(command.workspace_id, command.operation_id))


def test_the_copy_of_one_recording_and_of_all_of_a_workspace_is_deleted(command):
    path = kept_recordings.path_of(command.workspace_id, command.operation_id)
    kept_recordings.keep(folder_of(command))
    kept_recordings.remove(command.workspace_id, command.operation_id)
    assert (folder_of(command).exists(), shared_files.is_kept(path)) == (False, False)
    assert not recordings.of(command).about()["exists"]
    folder_of(command).mkdir()
    (folder_of(command) / "exit.json").write_text("{}")
    kept_recordings.keep(folder_of(command))
    kept_recordings.remove_all(command.workspace_id)
    assert not shared_files.is_kept(path)


@pytest.fixture
def installed(home, db):
    """A program of an agent, as npm leaves it, and in the bucket."""
    folder = home / "agents" / "codex" / "1.2.3"
    (folder / "bin").mkdir(parents=True)
    (folder / "codex").write_text("#!/bin/sh\necho codex\n")
    (folder / "codex").chmod(0o755)
    (folder / "bin" / "codex").symlink_to("../codex")
    agent_programs.install(AGENT)
    return folder


@pytest.fixture
def another_host(installed, settings, tmp_path, monkeypatch):
    """Be another host, which has nothing and cannot reach npm."""
    settings.HANDRAIL_HOME = tmp_path / "other"
    settings.HANDRAIL_HOME.mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    return settings.HANDRAIL_HOME


def test_a_program_that_one_host_installed_is_brought_from_the_bucket(another_host):
    assert (agent_programs.is_installed(AGENT), agent_programs.is_available(AGENT)) == (False, True)
    folder = agent_programs.install(AGENT)
    assert folder == another_host / "agents" / "codex" / "1.2.3"
    assert (folder / "bin" / "codex").read_text() == "#!/bin/sh\necho codex\n"
    assert os.access(folder / "bin" / "codex", os.X_OK)


def test_an_archive_that_was_replaced_in_the_bucket_is_refused(another_host):
    row = SharedAgentProgram.objects.get()
    path = shared_programs.path_of(row.digest)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"something else")
    shared_files.keep(path)
    with pytest.raises(Problem, match="is not the one that was put there"):
        agent_programs.install(AGENT)
    assert not agent_programs.is_installed(AGENT)


def test_a_removed_program_is_gone_from_the_bucket(another_host):
    digest = SharedAgentProgram.objects.get().digest
    agent_programs.remove(AGENT)
    assert (agent_programs.is_available(AGENT), shared_files.is_kept(shared_programs.path_of(digest))) == (False, False)
