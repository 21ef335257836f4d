"""A team's token for a code host clones and pushes there; it goes nowhere else and is written nowhere."""

import base64
import dataclasses
import os
import subprocess
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from dashboard.database import clock
from dashboard.models import Actor
from tests.support.code_host import TOKEN, CodeHost
from workspaces import secrets
from workspaces.provisioning.git import addresses, cloning, pushing, running, submodules
from workspaces.provisioning.git.credentials import NONE, Credential
from workspaces.secrets import team_credentials

BY = Actor.system("tests")
SENT = f"Basic {base64.b64encode(f'x-access-token:{TOKEN}'.encode()).decode()}"


@pytest.fixture(autouse=True)
def private_sources(settings):
    settings.HANDRAIL_PRIVATE_SOURCES = True


def git(*args, cwd):
    own = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always"]
    done = subprocess.run([*own, *args], cwd=cwd, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def bare(tmp_path):
    """A bare repository team/shop.git with one commit, below the folder that is served."""
    tree, folder = tmp_path / "tree", tmp_path / "served" / "team" / "shop.git"
    git("init", "-q", "-b", "trunk", str(tree), cwd=tmp_path)
    (tree / "cart.py").write_text("total = 0\n")
    git("add", ".", cwd=tree)
    git("commit", "-qm", "Begin", cwd=tree)
    git("clone", "-q", "--bare", str(tree), str(folder), cwd=tmp_path)
    git("config", "http.receivepack", "true", cwd=folder)
    return folder


@pytest.fixture
def host(tmp_path, bare):
    made = CodeHost("gitea", tmp_path / "served", is_private=True)
    yield made
    made.close()


@pytest.fixture
def source(host):
    return addresses.check_git(f"{host.url}/team/shop.git")


@pytest.fixture
def token(team, host):
    return secrets.save(team, "CODE_HOST_HERE", "host", TOKEN, origin=host.url, by=BY)


def into(tmp_path, name="clone"):
    folder = tmp_path / name
    folder.mkdir()
    return folder


def push(tmp_path, bare, source, credential):
    """Push one more commit to the branch `work`, as the runner does from a bundle."""
    tree, scratch = tmp_path / "tree", into(tmp_path, "scratch")
    git("commit", "--allow-empty", "-qm", "More", cwd=tree)
    git("bundle", "create", "-q", str(scratch / "bundle"), "HEAD", cwd=tree)
    sending = pushing.Push(scratch, source, "work", credential)
    sending.unpack()
    sending.fetch_branches()
    return sending.send().sha


def test_the_token_clones_names_the_default_branch_and_pushes(team, token, source, bare, tmp_path, host):
    credential = team_credentials.credential_of(team, source)
    assert (credential.name, credential.token) == ("CODE_HOST_HERE", TOKEN)
    target = into(tmp_path)
    assert cloning.clone(source, target, credential=credential) == git("rev-parse", "trunk", cwd=bare)
    assert pushing.default_branch(source, credential=credential) == "trunk"
    assert push(tmp_path, bare, source, credential) == git("rev-parse", "work", cwd=bare)
    assert set(host.sent) == {SENT}


def test_without_one_the_failure_names_the_secret_to_set(team, source, tmp_path, host):
    credential = team_credentials.credential_of(team, source)
    with pytest.raises(running.NotLetIn) as failed:
        cloning.clone(source, into(tmp_path), credential=credential)
    name = f"CODE_HOST_127_0_0_1_{source.port}"
    assert failed.value.secret == {"name": name, "origin": host.url}
    assert f"A lead can set the secret {name} with the origin {host.url}" in str(failed.value)
    assert set(host.sent) == {""}


@pytest.mark.parametrize("act", ["clone", "ask", "push"])
def test_a_host_that_refuses_a_token_names_the_secret_that_was_sent(team, source, bare, tmp_path, host, act):
    secrets.save(team, "OURS", "host", "wrong-token-xyz", origin=host.url, by=BY)
    credential = team_credentials.credential_of(team, source)
    acts = {
        "clone": partial(cloning.clone, source, into(tmp_path), credential=credential),
        "ask": partial(pushing.default_branch, source, credential=credential),
        "push": partial(push, tmp_path, bare, source, credential),
    }
    with pytest.raises(running.NotLetIn, match="refused the token in the secret OURS") as failed:
        acts[act]()
    assert failed.value.secret == {"name": "OURS", "origin": host.url}
    assert "wrong-token-xyz" not in str(failed.value)
    assert git("branch", "--list", "work", cwd=bare) == ""


def test_a_team_token_is_not_given_to_another_team(other_team, token, source):
    assert not team_credentials.credential_of(other_team, source).is_sent


@pytest.mark.parametrize("other", ["{scheme}s://{host}:{port}", "http://{host}:1", "http://127.0.0.2:{port}"])
def test_a_team_token_is_for_one_scheme_host_and_port(team, token, source, other):
    where = other.format(scheme=source.scheme, host=source.host, port=source.port)
    assert not team_credentials.credential_of(team, addresses.check_git(f"{where}/team/shop.git")).is_sent


def test_a_team_token_is_sent_without_tls_to_this_machine_alone(team, settings, tmp_path, source):
    hosts = tmp_path / "hosts"
    hosts.write_text("10.1.2.3 forge.test\n")
    settings.HANDRAIL_EGRESS_HOSTS = str(hosts)
    secrets.save(team, "FORGE", "host", TOKEN, origin="http://forge.test", by=BY)
    found = team_credentials.credential_of(team, addresses.check_git("http://forge.test/team/shop.git"))
    assert (found.is_sent, found.withheld) == (
        False,
        "forge.test is reached without TLS, so the token in FORGE is not sent there.",
    )


def test_git_keeps_it_from_another_address(token, team, source, bare, host, tmp_path):
    """The token is set for its own address: a git that is led elsewhere has none to send."""
    elsewhere = CodeHost("gitea", tmp_path / "served", is_private=True)
    try:
        env = running.environment_for(source, team_credentials.credential_of(team, source))
        with running.git_in(tmp_path) as run, pytest.raises(running.CloneFailed):
            run("ls-remote", f"{elsewhere.url}/team/shop.git", env=env)
    finally:
        elsewhere.close()
    assert set(elsewhere.sent) == {""}


def test_a_team_token_comes_before_lent_credentials(team, token, source, settings, tmp_path, monkeypatch):
    settings.HANDRAIL_GIT_HOSTS = [source.host]
    monkeypatch.setenv("HOME", str(tmp_path))
    credential = team_credentials.credential_of(team, source)
    assert running.environment_for(source, credential)["HOME"] == "/nonexistent"
    assert running.environment_for(source, NONE)["HOME"] == str(tmp_path)


def test_submodules_of_the_same_owner_are_cloned_with_it_and_those_of_others_are_not(
    team, token, source, host, bare, tmp_path
):
    for owner in ("team", "stranger"):
        git("clone", "-q", "--bare", str(bare), str(tmp_path / "served" / owner / "lib.git"), cwd=tmp_path)
        git("submodule", "add", "-q", str(tmp_path / "served" / owner / "lib.git"), owner, cwd=tmp_path / "tree")
        git("config", "-f", ".gitmodules", f"submodule.{owner}.url", f"../../{owner}/lib.git", cwd=tmp_path / "tree")
    git("commit", "-qam", "Add two", cwd=tmp_path / "tree")
    git("push", "-q", str(bare), "trunk", cwd=tmp_path / "tree")
    wish = {"git": f"{host.url}/team/shop.git"}
    told = submodules.clone(wish, into(tmp_path), credential_of=partial(team_credentials.credential_of, team))[
        "submodules"
    ]
    reasons = {row["path"]: row["reason"] for row in told}
    assert reasons["team"] == ""
    assert "asks for credentials" in reasons["stranger"]
    assert (tmp_path / "clone" / "team" / "cart.py").exists()


def test_a_team_token_is_in_no_argument_message_or_file(team, token, source, bare, tmp_path, monkeypatch):
    """What git is started with and what a clone leaves has the token in no form."""
    started, popen = [], subprocess.Popen
    monkeypatch.setattr(running.subprocess, "Popen", lambda args, **how: started.append(args) or popen(args, **how))
    credential = team_credentials.credential_of(team, source)
    cloning.clone(source, into(tmp_path), credential=credential)
    push(tmp_path, bare, source, credential)
    forms = [TOKEN.encode(), SENT.split()[1].encode()]
    said = repr((started, credential, dataclasses.replace(credential, name="x"))).encode()
    assert len(started) > 5
    assert not any(form in said for form in forms)
    written = [Path(folder, name).read_bytes() for folder, _, names in os.walk(tmp_path) for name in names]
    assert not any(form in text for text in written for form in forms)


def test_a_credential_is_shown_without_its_value():
    assert "canary" not in repr(Credential("A", token="canary-1", ssh_key="canary-2"))


def test_an_expired_team_token_gives_way_to_another_or_is_named(team, source, host, tmp_path):
    old = secrets.save(team, "A_OLD", "host", TOKEN, origin=host.url, by=BY)
    type(old).objects.filter(pk=old.pk).update(expires_at=clock.now() - timedelta(days=1))
    with pytest.raises(running.NotLetIn, match="The secret A_OLD has expired"):
        cloning.clone(source, into(tmp_path), credential=team_credentials.credential_of(team, source))
    secrets.save(team, "B_NEW", "host", TOKEN, origin=host.url, by=BY)
    assert team_credentials.credential_of(team, source).name == "B_NEW"
