"""An agent's program is installed from npm by an operation: whole or not at all, also if somebody kills it meanwhile.

The package is a local tarball, which the ordinary npm installs, or a stand-in for npm that takes its time.
"""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from dashboard.problems import Problem
from tests.support import CHECKOUT
from tests.support.waiting import until
from workspaces import extensions
from workspaces.provisioning import agent_programs
from workspaces.store import Cancelled

NAMED = "codex@1.2.3"
BINARY = "node_modules/codex-stand-in/bin/codex"
SLOW = """#!/bin/sh
while [ "$1" != --prefix ]; do shift; done
mkdir -p "$2/node_modules"
head -c 200000 /dev/zero > "$2/node_modules/half"
echo $$ > {pid}
env > {environment}
exec sleep 300
"""
KILLED = """
import sys
from pathlib import Path
import django
django.setup()
from workspaces.provisioning import agent_programs
agent_programs.install(sys.argv[1])
"""


@pytest.fixture
def home(settings, tmp_path) -> Path:
    settings.HANDRAIL_HOME = tmp_path / "home"
    return settings.HANDRAIL_HOME


@pytest.fixture
def tarball(tmp_path, monkeypatch) -> Path:
    """A package on this disk, named in the place of the agent's."""
    file = tmp_path / "package.tgz"
    contents = {"package/package.json": json.dumps({"name": "codex-stand-in", "version": "1.2.3"})}
    contents["package/bin/codex"] = "#!/bin/sh\necho codex 1.2.3\n"
    with tarfile.open(file, "w:gz") as archive:
        for name, text in contents.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text), 0o700
            archive.addfile(entry, io.BytesIO(text.encode()))
    return file


@pytest.fixture
def codex(monkeypatch):
    """Codex, of another package than its own."""

    def of(package: str):
        made = replace(extensions.agent_programs["codex"], package=package, binary=BINARY)
        monkeypatch.setitem(extensions.agent_programs, "codex", made)

    return of


@pytest.fixture
def slow_npm(tmp_path, monkeypatch) -> Path:
    """A stand-in for npm that writes a part and goes on for minutes; the file with its process id."""
    folder = tmp_path / "path"
    folder.mkdir()
    pid = tmp_path / "npm.pid"
    (folder / "npm").write_text(SLOW.format(pid=pid, environment=tmp_path / "npm.env"))
    (folder / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return pid


def left(home: Path) -> list[str]:
    folder = home / "agents" / "codex"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def runs(pid_file: Path) -> bool:
    return Path(f"/proc/{pid_file.read_text().strip()}").exists()


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
def test_npm_brings_a_package_and_every_user_can_run_its_program(home, tarball, codex, monkeypatch):
    # A file's name takes the place of package and version.
    monkeypatch.setattr(agent_programs.npm, "bring", _of_file(agent_programs.npm.bring, tarball))
    codex("codex-stand-in")
    folder = agent_programs.install(NAMED)
    assert agent_programs.is_installed(NAMED)
    assert left(home) == ["1.2.3"]
    said = subprocess.run([folder / "bin" / "codex"], capture_output=True, text=True, check=True).stdout
    assert said == "codex 1.2.3\n"
    assert (folder / BINARY).stat().st_mode & 0o555 == 0o555
    assert agent_programs.install(NAMED) == folder  # it is there already


def _of_file(bring, file: Path):
    return lambda package, folder, **how: bring(str(file), folder, **how)


def test_what_is_cancelled_leaves_nothing_and_ends_npm(home, codex, slow_npm):
    codex("codex-stand-in")
    cancel, ended = threading.Event(), []

    def install():
        with pytest.raises(Cancelled):
            agent_programs.install(NAMED, cancel=cancel)
        ended.append(True)

    thread = threading.Thread(target=install)
    thread.start()
    until(slow_npm.exists)
    assert [name.startswith(".part-") for name in left(home)] == [True]
    cancel.set()
    thread.join(30)
    assert (ended, left(home), runs(slow_npm)) == ([True], [], False)


def test_a_killed_installer_leaves_nothing_and_no_npm(tmp_path, slow_npm):
    home = tmp_path / "home"
    environment = os.environ | {"HANDRAIL_HOME": str(home), "DJANGO_SETTINGS_MODULE": "dashboard.settings"}
    environment["HANDRAIL_A_SECRET"] = "of Handrail"
    line = [sys.executable, "-c", KILLED, NAMED]
    installer = subprocess.Popen(line, cwd=CHECKOUT, env=environment, start_new_session=True)
    try:
        until(slow_npm.exists, within=60)
        assert len(left(home)) == 1
    finally:
        installer.send_signal(signal.SIGKILL)
        installer.wait()
    until(lambda: not runs(slow_npm))
    until(lambda: left(home) == [])
    assert "HANDRAIL_" not in (tmp_path / "npm.env").read_text()


def test_a_package_without_a_program_for_this_machine_is_refused(home, tarball, codex, monkeypatch):
    monkeypatch.setattr(agent_programs.npm, "bring", lambda *package, **how: None)
    codex("codex-stand-in")
    with pytest.raises(Problem, match="has no program for this machine"):
        agent_programs.install(NAMED)
    assert left(home) == []


def test_npm_that_writes_without_end_is_ended(home, codex, tmp_path, monkeypatch):
    folder = tmp_path / "path"
    folder.mkdir()
    (folder / "npm").write_text("#!/bin/sh\nexec cat /dev/zero > /dev/null\n")
    (folder / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(agent_programs.npm, "MAX_WRITTEN", 1 << 20)
    codex("codex-stand-in")
    written = []
    with pytest.raises(Problem, match="npm wrote more than"):
        agent_programs.install(NAMED, report=written.append)
    assert written[-1] > 1 << 20
    assert left(home) == []


def test_the_versions_are_those_that_the_tests_pin():
    pinned = (CHECKOUT / "deploy" / "agents.txt").read_text().split()
    for program in extensions.agent_programs.values():
        assert f"{program.package}@{program.version}" in pinned


def test_the_newest_version_is_found_by_its_numbers(home):
    program = extensions.agent_programs["codex"]
    for version in ("0.9.0", "0.10.0", "0.2.11"):
        folder = agent_programs.folder_of(program, version) / "bin"
        folder.mkdir(parents=True)
        (folder / program.link).write_text("")
    assert agent_programs.versions_of(program) == ["0.10.0", "0.9.0", "0.2.11"]
    assert agent_programs.best_of(program) == "codex@0.10.0"
