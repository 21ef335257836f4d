"""What the agents' folders say is protected reaches the envelope, here and in the init's archive."""

import io
import subprocess
import sys
import zipfile

from tests.support import CHECKOUT
from workspaces.drivers.program_archive import init_archive
from workspaces.envelope import sensitive_names, startup_files

NAMES = ("PROTECTED", "PROTECTED_PATTERNS", "PROTECTED_PAIRS", "SECRET_FOLDERS", "SECRET_PAIRS", "SECRET_NAMES")


def run(code: str, *words: str) -> subprocess.CompletedProcess:
    command = [sys.executable, *words, "-c", code]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=60)


def test_the_inits_archive_has_the_same_names(tmp_path):
    archive = tmp_path / "init.pyz"
    archive.write_bytes(init_archive())
    code = f"import sys; sys.path.insert(0, {str(archive)!r}); from init.envelope import sensitive_names as module; "
    code += f"print([sorted(getattr(module, name)) for name in {NAMES!r}])"
    found = run(code, "-I", "-S")
    assert found.stdout.strip() == str([sorted(getattr(sensitive_names, name)) for name in NAMES]), found.stderr


def test_the_files_of_each_agent_are_among_them():
    tools = {tool for tool, _, _ in startup_files.rows()}
    assert {"Claude Code", "Codex", "Gemini CLI", "Qwen Code", "GitHub Copilot", "OpenCode"} <= tools
    assert (".codex", "auth.json") in sensitive_names.SECRET_PAIRS
    assert {".claude.json", "oauth_creds.json"} <= sensitive_names.SECRET_NAMES


def test_a_program_that_begins_in_a_driver_has_the_same_names():
    code = "from workspaces.envelope import sensitive_names as module; "
    found = run(code + f"print([sorted(getattr(module, name)) for name in {NAMES!r}])")
    assert found.stdout.strip() == str([sorted(getattr(sensitive_names, name)) for name in NAMES]), found.stderr


def test_an_archive_without_the_agents_makes_no_list_of_names(tmp_path):
    with zipfile.ZipFile(io.BytesIO(init_archive())) as full, zipfile.ZipFile(tmp_path / "init.pyz", "w") as cut:
        for name in full.namelist():
            if not name.startswith("init/envelope/agents/") or name.endswith("__init__.py"):
                cut.writestr(name, full.read(name))
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'init.pyz')!r}); import init.envelope.sensitive_names"
    found = run(code, "-I", "-S")
    assert found.returncode != 0
    assert "No module named 'approvals'" in found.stderr
