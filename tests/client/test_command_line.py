"""`handrail`: ask, run, push, files, snapshots, notes, sessions, approvals; in a process of its own."""

import json
import subprocess

import pytest

from tests.support.waiting import until


@pytest.fixture
def handrail(command, environment, tmp_path):
    """`handrail("run", …)`: one command to its end."""

    def run(*words: str, **more) -> subprocess.CompletedProcess:
        return subprocess.run([*command, *words], **({"env": environment, "cwd": tmp_path} | more), **CAPTURED)

    return run


CAPTURED = {"capture_output": True, "text": True, "timeout": 120}


@pytest.fixture
def started(command, environment, tmp_path):
    def start(*words: str) -> subprocess.Popen:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen([*command, *words], env=environment, cwd=tmp_path, **pipes)

    return start


def test_a_gated_command_runs_as_it_was_edited_and_its_status_is_told(started, person, name, tmp_path):
    gated = started("gate", "--reason", "Nightly.", "--", "sudo", "touch", "asked")
    asked = person.sees(name)
    assert asked["title"] != ""
    person.decides(asked, "edit", arguments={"command": "touch edited; exit 3"})
    gated.communicate(timeout=60)
    assert gated.returncode == 3
    assert [path.name for path in tmp_path.iterdir()] == ["edited"]
    assert person.status(asked) == "failed"


def test_a_denied_command_does_not_run(started, person, name, tmp_path):
    gated = started("gate", "--", "sudo", "touch", "asked")
    person.decides(person.sees(name), "deny", comment="Not tonight.")
    said = gated.communicate(timeout=60)[1]
    assert gated.returncode == 126
    assert "Not tonight." in said
    assert list(tmp_path.iterdir()) == []


def test_a_command_does_not_run_when_no_desk_answers(handrail, environment, tmp_path, line):
    line.cut("{}")
    away = environment | {"HANDRAIL_URL": line.url}
    done = handrail("gate", "--grace", "0.5", "--", "touch", "asked", env=away)
    assert done.returncode == 1
    assert "no desk" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_arguments_that_were_approved_are_printed_for_a_script(started, person, name):
    asking = started("ask", "deploy", '{"to": "production"}', "--key", "deploy-9")
    person.decides(person.sees(name), "edit", arguments={"to": "staging"})
    assert json.loads(asking.communicate(timeout=60)[0])["arguments"] == {"to": "staging"}


def test_a_person_decides_on_the_version_that_they_saw(handrail, desk, person, product, name):
    asked = desk.ask("Bash", {"command": "git push\u202e origin main"})
    theirs = {"HANDRAIL_URL": product.url, "HANDRAIL_TOKEN": person.token, "PYTHONPATH": "client"}
    env = {"env": theirs, "cwd": None}
    shown = handrail("approvals", "show", asked.id, **env).stdout
    assert "git push\\u202e origin main" in shown
    assert f"digest: {asked.digest}" in shown
    unseen = handrail("approvals", "approve", asked.id, **env, stdin=subprocess.DEVNULL)
    assert (unseen.returncode, person.status(asked.told)) == (1, "pending")
    other = handrail("approvals", "approve", asked.id, "--digest", "0" * 64, **env)
    assert (other.returncode, person.status(asked.told)) == (1, "pending")
    assert handrail("approvals", "approve", asked.id, "--digest", asked.digest, **env).returncode == 0
    assert person.status(asked.told) == "approved"


def test_a_folder_is_pushed_worked_in_and_restored(handrail, name, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / ".gitignore").write_text("build/\n")
    (source / "app.py").write_text("print(41 + 1)\n")
    (source / "build").mkdir()
    (source / "build" / "junk").write_text("junk")
    subprocess.run(["git", "init", "-q", str(source)], check=True)
    key = "pushed-by-the-client"
    assert handrail("push", "source", key).stdout == f"{key} is ready\n"
    listed = handrail("--json", "files", "list", key).stdout.splitlines()
    assert {json.loads(line)["name"] for line in listed} >= {".gitignore", "app.py"}
    assert "build" not in {json.loads(line)["name"] for line in listed}
    ran = handrail("run", key, "--", "sh", "-c", "cat app.py; exit 7")
    assert (ran.stdout, ran.returncode) == ("print(41 + 1)\n", 7)
    number = handrail("snapshots", "take", key, "--label", "before").stdout.strip()
    handrail("files", "put", key, "app.py", input="broken\n")
    assert handrail("files", "get", key, "app.py").stdout == "broken\n"
    assert handrail("files", "get", key, "app.py", "--snapshot", number).stdout == "print(41 + 1)\n"
    assert handrail("snapshots", "restore", key, number).returncode == 0
    assert handrail("files", "get", key, "app.py").stdout == "print(41 + 1)\n"
    (source / "app.py").write_text("print(43)\n")
    assert handrail("push", "source", key).stdout == f"{key} is ready\n"
    assert handrail("files", "get", key, "app.py").stdout == "print(43)\n"
    assert handrail("notes", key, "--write", input="Port 8080 is taken.\n").returncode == 0
    assert handrail("notes", key).stdout == "Port 8080 is taken.\n"
    assert key in handrail("workspaces").stdout
    assert handrail("workspaces", "stop", key).stdout == f"{key} is stopped\n"


def test_what_was_said_in_a_session_is_listed_and_exported(handrail, product, token):
    event = {
        "session_id": "of-the-client",
        "cwd": "/tmp",
        "hook_event_name": "UserPromptSubmit",
        "prompt": "Mend the build",
    }
    product.post("/hooks/claude-code", token, event)
    listed = until(lambda: handrail("--json", "sessions").stdout)
    [session] = [json.loads(row) for row in listed.splitlines()]
    assert session["native_id"] == "of-the-client"
    assert handrail("sessions", "show", session["id"]).stdout == "user text: Mend the build\n"
    assert "Mend the build" in handrail("sessions", "export", session["id"], "--form", "md").stdout


def test_a_connection_that_others_can_read_is_refused(handrail, product, token, tmp_path):
    file = tmp_path / "connection.json"
    file.write_text(json.dumps({"url": product.url, "token": token}))
    file.chmod(0o644)
    assert "Others can read" in handrail("--connection", str(file), "me").stderr
    file.chmod(0o600)
    assert json.loads(handrail("--connection", str(file), "me").stdout)["type"] == "agent"
