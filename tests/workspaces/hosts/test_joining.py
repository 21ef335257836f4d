"""A new host joins by a token that is good once, for one name, for 15 minutes; what it gets is sealed for it alone."""

import json
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from dashboard.database import clock
from dashboard.keys import keyring, log_key
from dashboard.models import Actor, Event
from dashboard.problems import Problem
from dashboard.text import setting_values
from tests.pages.conftest import workspace  # noqa: F401 - a fixture
from workspaces.host import identity, join_tokens, joining, member_home, removing, same_keys, versions
from workspaces.models import JoinToken, Runner, State, StoreIdentity
from workspaces.pages import joining as page

DESK = "https://desk.example.org"
OPERATOR = Actor.system("manage.py host")


@pytest.fixture(autouse=True)
def no_questions_yet():
    page.cache.delete(page.JOINS)


@pytest.fixture
def on_a_server(monkeypatch):
    """The database is one that several hosts can use, whichever the tests run on."""
    monkeypatch.setattr(joining, "_refuse_file_database", lambda: None)


@pytest.fixture
def desk(on_a_server, db, settings, tmp_path):
    """A desk with keys, at DESK; `desk.home` is its HANDRAIL_HOME."""
    settings.HANDRAIL_PUBLIC_URL = DESK
    keyring.load()
    log_key.private_key()
    identity.register()
    Runner.objects.update(heartbeat_at=clock.now())
    return settings


@pytest.fixture
def new_host(desk, settings, tmp_path, monkeypatch):
    """`new_host(token)`: run `manage.py join` in an empty home against the desk; return its home."""
    here = (settings.HANDRAIL_HOME, settings.KEYS_DIR, settings.HANDRAIL_MEMBER_FILE)
    sent = []

    def post(url, body):
        sent.append(json.dumps(body))
        settings.HANDRAIL_HOME, settings.KEYS_DIR, settings.HANDRAIL_MEMBER_FILE = here
        answer = Client().post("/hosts/join", body, content_type="application/json")
        at(tmp_path / "new")
        sent.append(answer.content.decode())
        if answer.status_code != 200:
            raise member_home.JoinRefused(answer.json()["detail"])
        return answer.json()

    def at(home):
        home.mkdir(exist_ok=True)
        settings.HANDRAIL_HOME, settings.KEYS_DIR = home, home / "keys"
        settings.HANDRAIL_MEMBER_FILE = home / "host.env"

    def join(token, *, host=""):
        at(tmp_path / "new")
        monkeypatch.setattr(member_home, "_post", post)
        monkeypatch.setattr(member_home, "given", lambda: {"HANDRAIL_HOST_NAME": host} if host else {})
        try:
            member_home.join(DESK, token)
        finally:
            settings.HANDRAIL_HOME, settings.KEYS_DIR, settings.HANDRAIL_MEMBER_FILE = here
        return tmp_path / "new"

    join.sent = sent
    return join


def test_the_last_line_is_the_command_for_the_new_host(desk, capsys):
    call_command("host", "add", "host-b")
    last = capsys.readouterr().out.splitlines()[-1].split()
    assert last[:4] == ["python", "manage.py", "join", DESK]
    assert join_tokens.read(last[4]).code == JoinToken.objects.get().code
    assert JoinToken.objects.get().expires_at - clock.now() <= timedelta(minutes=15)


def test_a_new_host_gets_the_keys_and_the_settings_that_all_share(new_host, settings, monkeypatch):
    monkeypatch.setattr(joining, "given", lambda: {"DATABASE_URL": "postgres://db/handrail", "HANDRAIL_PORT": "8000"})
    home = new_host(joining.add("host-b"))
    for name in ("ring", "log"):
        key = home / "keys" / name
        assert (key.read_bytes(), key.stat().st_mode & 0o777) == ((settings.KEYS_DIR / name).read_bytes(), 0o600)
    given = home / "host.env"
    lines = [line for line in given.read_text().splitlines() if not line.startswith("#")]
    assert lines == [
        "DATABASE_URL=postgres://db/handrail",
        "HANDRAIL_HOST_NAME=host-b",
        f"HANDRAIL_PUBLIC_URL={DESK}",
    ]
    assert given.stat().st_mode & 0o777 == 0o600
    row = Runner.objects.get(host="host-b")
    assert (row.installation, row.home) == ((home / "installation").read_text().strip(), str(home))


def test_nobody_on_the_way_reads_the_secret_or_the_keys(new_host, settings):
    token = joining.add("host-b")
    new_host(token)
    seen = "".join(new_host.sent)
    assert join_tokens.read(token).secret.hex() not in seen
    assert token not in seen
    assert (settings.KEYS_DIR / "log").read_text().splitlines()[1] not in seen


def test_the_secret_of_a_token_is_kept_as_a_hash(desk):
    secret = join_tokens.read(joining.add("host-b")).secret
    assert secret.hex() not in json.dumps(JoinToken.objects.values().get(), default=str)


def test_a_token_used_twice_is_refused(new_host, tmp_path):
    token = joining.add("host-b")
    new_host(token)
    (tmp_path / "new").rename(tmp_path / "first")
    with pytest.raises(member_home.JoinRefused, match="This token was used already: it was for host-b"):
        new_host(token)


def test_an_expired_token_is_refused(new_host):
    token = joining.add("host-b")
    JoinToken.objects.update(expires_at=clock.now())
    with pytest.raises(member_home.JoinRefused, match="This token for host-b expired at"):
        new_host(token)
    assert JoinToken.objects.get().used_at is None


def test_a_token_for_another_name_is_refused_and_stays_good(new_host):
    token = joining.add("host-b")
    with pytest.raises(member_home.JoinRefused, match="is for host-b, and HANDRAIL_HOST_NAME there is host-c"):
        new_host(token, host="host-c")
    assert new_host(token, host="host-b")


def test_a_token_of_another_desk_is_refused(new_host, settings):
    token = joining.add("host-b")
    settings.SECRET_KEY = "another desk" * 5
    with pytest.raises(member_home.JoinRefused, match="This desk did not make this token"):
        new_host(token)
    with pytest.raises(member_home.JoinRefused, match="copy the whole line"):
        new_host(token[:-3])


def test_a_newer_token_for_the_same_name_replaces_the_older_one(new_host):
    old, token = joining.add("host-b"), joining.add("host-b")
    with pytest.raises(member_home.JoinRefused, match="does not know this token any more"):
        new_host(old)
    assert new_host(token)


def test_a_home_with_data_of_its_own_is_refused_before_anything_is_asked(new_host, tmp_path):
    token = joining.add("host-b")
    (tmp_path / "new" / "stores").mkdir(parents=True)
    with pytest.raises(member_home.JoinRefused, match=r"has data of an installation of its own \(stores\)"):
        new_host(token)
    (tmp_path / "new" / "stores").rmdir()
    assert new_host(token)
    with pytest.raises(member_home.JoinRefused, match="is the home of a member already"):
        new_host(joining.add("host-c"))


def test_a_version_that_is_no_neighbour_is_refused(new_host, monkeypatch):
    monkeypatch.setattr(identity, "code_version", lambda: "0.9.0")
    Runner.objects.update(version="0.7.2")
    with pytest.raises(member_home.JoinRefused, match=r"runs Handrail 0\.7\.2, and this is 0\.9\.0"):
        new_host(joining.add("host-b"))
    Runner.objects.update(version="0.8.0")
    assert new_host(joining.add("host-b"))


@pytest.mark.parametrize(
    ("one", "other", "neighbours"),
    [
        ("0.1.0", "0.1.7", True),
        ("0.1.0", "0.2.0", True),
        ("0.3.1", "0.2.9", True),
        ("0.1.0", "0.3.0", False),
        ("1.0.0", "0.1.0", False),
        ("not installed", "0.1.0", True),
    ],
)
def test_neighbours_are_one_minor_version_apart(one, other, neighbours):
    assert versions.are_neighbours(one, other) is neighbours


def test_sqlite_is_no_database_for_several_hosts(db, monkeypatch):
    monkeypatch.setattr(joining.connection, "vendor", "sqlite")
    with pytest.raises(CommandError, match="Set DATABASE_URL to a PostgreSQL database"):
        call_command("host", "add", "host-b")
    assert not JoinToken.objects.exists()


@pytest.mark.parametrize("name", ["", "a b", "-x", "a/b", "x" * 121])
def test_a_name_that_is_none_is_refused(desk, name):
    with pytest.raises(Problem, match="letters, digits, dots and hyphens"):
        joining.add(name)


def test_a_name_of_a_member_is_refused(new_host):
    new_host(joining.add("host-b"))
    with pytest.raises(Problem, match="A host host-b is a member already"):
        joining.add("host-b")


def test_what_is_no_question_is_refused(desk):
    client = Client()
    assert client.get("/hosts/join").status_code == 405
    for body in ({}, {"code": "x"}, {"code": 1, "public_key": "x", "sealed": "y"}, []):
        assert client.post("/hosts/join", body, content_type="application/json").status_code == 422
    body = {"code": "00", "public_key": "AA==", "sealed": "AA=="}
    assert client.post("/hosts/join", body, content_type="application/json").status_code == 403


def test_many_questions_are_refused(desk, monkeypatch):
    page.cache.delete(page.JOINS)
    answers = [Client().post("/hosts/join", {}, content_type="application/json").status_code for _ in range(32)]
    assert answers == [422] * page.PER_MINUTE + [429] * 2


@pytest.fixture
def member(db):
    return Runner.objects.create(host="host-b", installation="b", keys={"ring": ["other"]}, heartbeat_at=clock.now())


def test_a_host_is_removed_once_it_is_stopped_and_empty(member, team, workspace, capsys):  # noqa: F811
    with pytest.raises(CommandError, match="host-b answers"):
        call_command("host", "remove", "host-b")
    Runner.objects.update(heartbeat_at=None)
    member.refresh_from_db()
    workspace.runner, workspace.state = member, State.STOPPED
    workspace.save()
    with pytest.raises(Problem, match=f"{workspace.key} is on host-b. Drain it first"):
        removing.remove(member, by=OPERATOR)
    workspace.runner = None
    workspace.save()
    StoreIdentity.objects.create(team=team, store_id="x", host="host-b")
    with pytest.raises(Problem, match=f"The snapshots of {team.slug} are on host-b"):
        removing.remove(member, by=OPERATOR)
    StoreIdentity.objects.all().delete()
    call_command("host", "remove", "host-b")
    assert capsys.readouterr().out.startswith("host-b is no host of this installation any more.")
    assert not Runner.objects.members().exists()
    same_keys.refuse_others()


def test_a_removed_host_does_not_start_again_and_its_name_is_free(new_host, settings, tmp_path):
    home = new_host(joining.add("host-b"))
    removing.remove(Runner.objects.get(host="host-b"), by=OPERATOR)
    settings.HANDRAIL_HOST_NAME = "host-b"
    own, settings.HANDRAIL_HOME = settings.HANDRAIL_HOME, home
    with pytest.raises(identity.OtherInstallation, match="host-b was removed from this installation at"):
        identity.refuse_another()
    settings.HANDRAIL_HOME = own
    home.rename(tmp_path / "old")
    assert new_host(joining.add("host-b"))
    assert Runner.objects.members().filter(host="host-b").exists()


def test_the_log_of_each_team_says_that_a_host_joined_and_that_it_was_removed(new_host, team):
    new_host(joining.add("host-b"))
    removing.remove(Runner.objects.get(host="host-b"), by=OPERATOR)
    joined, removed = Event.objects.filter(team=team, verb__startswith="host.").order_by("seq")
    assert (joined.verb, joined.data["host"], joined.actor_label) == ("host.joined", "host-b", "manage.py join")
    assert (removed.verb, removed.data["host"], removed.actor_label) == ("host.removed", "host-b", "manage.py host")


def test_what_a_host_was_given_is_read_after_its_environment(tmp_path, monkeypatch):
    monkeypatch.setattr(setting_values.os, "environ", {"HANDRAIL_HOST_NAME": "by-hand", "HANDRAIL_BUCKET": ""})
    (tmp_path / "host.env").write_text("# given\nHANDRAIL_HOST_NAME=host-b\nHANDRAIL_BUCKET=s3://b/p\nAWS_REGION=a=b\n")
    setting_values.read_home(tmp_path / "host.env")
    setting_values.read_home(tmp_path / "none")
    names = ("HANDRAIL_HOST_NAME", "HANDRAIL_BUCKET", "AWS_REGION", "DATABASE_URL")
    assert [setting_values.env(name) for name in names] == ["by-hand", "", "a=b", ""]
    assert setting_values.given() == {"HANDRAIL_HOST_NAME": "by-hand", "AWS_REGION": "a=b"}
