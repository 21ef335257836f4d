"""Codex runs only hooks that it trusts: `connect codex` makes the trust true and asks Codex again.

The `codex` here stands for the program: it lists the hooks of the home's hooks.json, and trusts those whose hash
config.toml holds.
"""

import os
import stat
import sys
import tomllib

import pytest

from approvals.agents import dialects, home_settings
from approvals.agents.codex import trust as codex_trust
from approvals.agents.hook_programs import hook_command
from dashboard.problems import Problem

PROGRAM = f"""#!{sys.executable}
import hashlib, json, os, pathlib, sys, tomllib

home = pathlib.Path(os.environ["HOME"]) / ".codex"
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialize":
        print(json.dumps({{"id": asked["id"], "result": {{"userAgent": "codex"}}}}), flush=True)
    if asked["method"] != "hooks/list":
        continue
    print(json.dumps({{"method": "thread/started", "params": {{}}}}), flush=True)
    config = home / "config.toml"
    state = tomllib.loads(config.read_text()).get("hooks", {{}}).get("state", {{}}) if config.exists() else {{}}
    hooks = []
    for event, groups in json.loads((home / "hooks.json").read_text())["hooks"].items():
        for number, group in enumerate(groups):
            command = group["hooks"][0]["command"]
            key = f"{{home}}/hooks.json:{{event}}:{{number}}:0"
            now = "sha256:" + hashlib.sha256(command.encode()).hexdigest()
            trusted = state.get(key, {{}}).get("trusted_hash") == now and not os.environ.get("TRUSTS_NOTHING")
            hooks.append({{"key": key, "currentHash": now, "command": command,
                          "trustStatus": "trusted" if trusted else "untrusted"}})
    listed = [{{"cwd": asked["params"]["cwds"][0], "hooks": hooks}}]
    print(json.dumps({{"id": asked["id"], "result": {{"data": listed}}}}), flush=True)
"""
CODEX = dialects.find("codex")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home with a Codex on the PATH and Handrail's hook in its hooks.json."""
    program = tmp_path / "bin" / "codex"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    path = tmp_path / "home"
    path.mkdir()
    monkeypatch.setenv("HOME", str(path))
    return path


@pytest.fixture
def connection(tmp_path, home):
    path = tmp_path / "connection.json"
    hooks = CODEX.hooks(lambda role, event="": hook_command(path, role, "codex", event))
    home_settings.put_in(CODEX, home, hooks, ours=str(path))
    return path


def trusted(home) -> dict:
    return tomllib.loads((home / ".codex/config.toml").read_text())["hooks"]["state"]


def test_the_hashes_are_written_and_codex_says_that_it_trusts_them(home, connection):
    said = codex_trust.make_true(home, home, ours=str(connection))
    assert said == "Codex says that it trusts the 5 hooks of Handrail."
    assert len(trusted(home)) == 5


def test_the_users_config_stays_and_comes_back(home, connection):
    config = home / ".codex/config.toml"
    before = 'model = "gpt"\n[hooks.state."/other:PreToolUse:0:0"]\ntrusted_hash = "sha256:1"'
    config.write_text(before)
    codex_trust.make_true(home, home, ours=str(connection))
    assert len(trusted(home)) == 6
    codex_trust.forget(home)
    assert config.read_text() == before


def test_made_true_again_it_is_there_once(home, connection):
    codex_trust.make_true(home, home, ours=str(connection))
    (home / ".codex/config.toml").write_text((home / ".codex/config.toml").read_text().replace("sha256:", "sha256:0"))
    codex_trust.make_true(home, home, ours=str(connection))
    assert (home / ".codex/config.toml").read_text().count(codex_trust.BEGIN) == 1


def test_a_file_that_was_not_there_is_removed_again(home, connection):
    codex_trust.make_true(home, home, ours=str(connection))
    codex_trust.forget(home)
    assert not (home / ".codex/config.toml").exists()


def test_a_codex_that_does_not_trust_it_all_the_same_is_an_error(home, connection, monkeypatch):
    monkeypatch.setenv("TRUSTS_NOTHING", "1")
    with pytest.raises(Problem, match="does not trust"):
        codex_trust.make_true(home, home, ours=str(connection))


def test_a_hook_that_codex_does_not_list_is_an_error(home, connection):
    with pytest.raises(Problem, match="does not list"):
        codex_trust.make_true(home, home, ours="/another/connection.json")


def test_without_codex_there_is_no_trust(home, connection, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Problem, match="not on this PATH"):
        codex_trust.make_true(home, home, ours=str(connection))
