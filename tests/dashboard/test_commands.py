"""create_token and sign_in_url, as people type them."""

import io
import os
import subprocess
import sys

import pytest
from django.contrib.auth import get_user_model
from django.core.checks import run_checks
from django.core.management import CommandError, call_command

from dashboard.database import clock
from dashboard.files.locks import take_lock
from dashboard.models import Agent, Event, Membership, Team, Token
from dashboard.ops import bootstrap, database, doctor
from dashboard.people.tokens import find_token
from tests.support import CHECKOUT
from workspaces.models import Runner


def run(capsys, *args) -> str:
    """What the command printed."""
    call_command(*args)
    return capsys.readouterr().out


def test_a_token_of_an_agent_makes_what_is_missing_and_prints_nothing_else(db, capsys):
    printed = run(capsys, "create_token", "--team", "payments", "--agent", "claude")
    token = find_token(printed.removesuffix("\n"))
    assert (token.agent.name, token.team.slug, token.user) == ("claude", "payments", None)
    event = Event.objects.get(team=token.team)
    assert (event.verb, event.data) == (
        "token.created",
        {"prefix": token.prefix, "of": "claude", "type": "agent"},
    )


def test_the_same_command_again_makes_another_token_and_nothing_else(db, capsys):
    first, second = (run(capsys, "create_token", "--team", "payments", "--agent", "claude") for _ in range(2))
    assert first != second
    assert (Team.objects.count(), Agent.objects.count(), Token.objects.count()) == (1, 1, 2)


def test_a_token_of_a_person_makes_the_person_with_a_role_and_no_password(db, capsys):
    token = find_token(run(capsys, "create_token", "--team", "payments", "--user", "mia", "--role", "lead").strip())
    assert (token.user.username, token.user.has_usable_password(), token.user.is_staff) == ("mia", False, False)
    assert Membership.objects.get(user=token.user).role == "lead"


def test_the_role_is_what_was_said_last(bob, capsys):
    run(capsys, "create_token", "--team", "payments", "--user", "bob", "--role", "viewer")
    assert bob.memberships.get().role == "viewer"
    run(capsys, "create_token", "--team", "payments", "--user", "bob")
    assert bob.memberships.get().role == "viewer"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--team", "no slug", "--agent", "claude"], "is no name for a team"),
        (["--team", "", "--agent", "claude"], "is no name for a team"),
        (["--team", "payments", "--agent", " "], "is no name for an agent"),
        (["--team", "payments", "--agent", "x" * 81], "is no name for an agent"),
        (["--team", "payments", "--user", "mia"], "a role is needed"),
        (["--team", "payments", "--user", "m i a", "--role", "lead"], "is no name for a user"),
        (["--team", "payments", "--agent", "claude", "--role", "lead"], "--role is for people"),
        (["--team", "payments", "--user", "mia", "--role", "king"], "invalid choice"),
        (["--team", "payments"], "required"),
        (["--agent", "claude"], "required"),
    ],
)
def test_bad_input_is_refused_in_words_and_changes_nothing(db, args, words):
    with pytest.raises(CommandError, match=words):
        call_command("create_token", *args)
    assert (Team.objects.count(), Agent.objects.count(), Token.objects.count()) == (0, 0, 0)
    assert get_user_model().objects.count() == 0


def test_a_closed_account_gets_no_token_and_no_link(alice):
    alice.is_active = False
    alice.save()
    with pytest.raises(CommandError, match="closed"):
        call_command("create_token", "--team", "payments", "--user", "alice", "--role", "admin")
    with pytest.raises(CommandError, match="closed"):
        call_command("sign_in_url", "alice")
    assert Token.objects.count() == 0


def test_a_sign_in_url_is_printed_and_works_once(alice, client, capsys):
    url = run(capsys, "sign_in_url", "alice").removesuffix("\n")
    assert url.startswith("http://127.0.0.1:8000/sign-in/")
    assert client.post(url.removeprefix("http://127.0.0.1:8000")).status_code == 302
    assert client.post(url.removeprefix("http://127.0.0.1:8000")).status_code == 410


def test_a_sign_in_url_has_a_qr_code_on_a_terminal(alice, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    call_command("sign_in_url", "alice")
    url, *code = terminal.getvalue().splitlines()
    assert url.startswith("http://127.0.0.1:8000/sign-in/")
    assert any("█" in line or "▄" in line or "▀" in line for line in code)


def test_a_sign_in_url_for_nobody_says_how_to_make_somebody(db):
    with pytest.raises(CommandError, match=r"No user is named eve.*--user eve"):
        call_command("sign_in_url", "eve")


def test_an_old_sqlite_is_warned_of_once_with_what_to_do(db, settings, tmp_path, monkeypatch):
    settings.HANDRAIL_HOME = tmp_path
    monkeypatch.setattr(database, "is_sqlite", lambda: True)
    monkeypatch.setattr("sqlite3.sqlite_version_info", (3, 40, 1))
    monkeypatch.setattr("sqlite3.sqlite_version", "3.40.1")
    [words] = bootstrap.first_warnings()
    assert words.startswith("SQLite 3.40.1 can in rare cases damage")
    assert "set DATABASE_URL to a PostgreSQL database" in words
    assert bootstrap.first_warnings() == []
    monkeypatch.setattr("sqlite3.sqlite_version", "3.41.0")
    assert len(bootstrap.first_warnings()) == 1


def test_the_system_checks_that_a_start_leaves_out_find_nothing():
    assert run_checks() == []


def test_what_every_command_and_part_loads_is_without_what_only_one_of_them_needs():
    """Each of these would cost each start, each command and each test with processes a tenth of a second or more."""
    told = "import sys, django; django.setup(); print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", told], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    heavy = {"twisted", "autobahn", "ninja", "pydantic", "aiohttp", "pygit2", "docker", "qemu", "pygments"}
    assert heavy & set(loaded.stdout.split()) == set()


def test_doctor_does_not_call_a_runner_running_that_has_just_stopped(db, settings, tmp_path):
    settings.HANDRAIL_HOME = tmp_path
    Runner.objects.create(host=settings.HANDRAIL_HOST_NAME, heartbeat_at=clock.now())

    def found(*, deep):
        return next(each for each in doctor.examine(deep=deep) if each.part == "runner")

    assert found(deep=True).words.startswith("Stopped, last heartbeat ")
    assert not found(deep=True).ok
    assert found(deep=False).ok
    held = take_lock(tmp_path / "runner.lock")
    try:
        assert found(deep=True).words.startswith("Running, last heartbeat ")
    finally:
        os.close(held)


def test_down_says_that_nothing_was_running(db, capsys):
    assert run(capsys, "down") == "Nothing was running. What was stopped, paused or archived stays as it is.\n"
