"""A team's deploy key clones and pushes over ssh, to a host that shows the pinned key; nobody else's keys are used."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from dashboard.models import Actor, Event
from dashboard.problems import Problem
from dashboard.workers import warden
from tests.support import ssh_host
from workspaces import secrets
from workspaces.host import paths
from workspaces.models import Secret
from workspaces.provisioning.git import addresses, cloning, pushing, running
from workspaces.secrets import team_credentials
from workspaces.services import secret_uses

BY = Actor.system("tests")
pytestmark = pytest.mark.skipif(ssh_host.SSHD is None, reason="sshd is missing (openssh-server)")


def git(*args, cwd):
    own = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org"]
    return subprocess.run([*own, *args], cwd=cwd, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    made = ssh_host.SshHost(tmp_path_factory.mktemp("ssh") / "host")
    yield made
    made.close()


@pytest.fixture
def bare(tmp_path):
    tree, folder = tmp_path / "tree", tmp_path / "shop.git"
    git("init", "-q", "-b", "trunk", str(tree), cwd=tmp_path)
    (tree / "cart.py").write_text("total = 0\n")
    git("add", ".", cwd=tree)
    git("commit", "-qm", "Begin", cwd=tree)
    git("clone", "-q", "--bare", str(tree), str(folder), cwd=tmp_path)
    return folder


@pytest.fixture(autouse=True)
def private_sources(settings, tmp_path):
    settings.HANDRAIL_PRIVATE_SOURCES = True
    settings.HANDRAIL_RUNTIME = tmp_path / "run"


@pytest.fixture
def source(host, bare):
    return addresses.check_git(host.address(bare))


def set_key(team, host, name="SSH_KEY_HERE", **how):
    how = {"value": host.key, "host_key": host.host_line, "origin": host.origin} | how
    return secrets.save(team, name, "host", by=BY, **how)


def into(tmp_path, name="clone"):
    folder = tmp_path / name
    folder.mkdir()
    return folder


def push(tmp_path, source, credential):
    tree, scratch = tmp_path / "tree", into(tmp_path, "scratch")
    git("commit", "--allow-empty", "-qm", "More", cwd=tree)
    git("bundle", "create", "-q", str(scratch / "bundle"), "HEAD", cwd=tree)
    sending = pushing.Push(scratch, source, "work", credential)
    sending.unpack()
    sending.fetch_branches()
    return sending.send().sha


def test_the_key_clones_names_the_default_branch_and_pushes(team, host, source, bare, tmp_path):
    set_key(team, host)
    credential = team_credentials.credential_of(team, source)
    assert cloning.clone(source, into(tmp_path), credential=credential) == git("rev-parse", "trunk", cwd=bare)
    assert pushing.default_branch(source, credential=credential) == "trunk"
    assert push(tmp_path, source, credential) == git("rev-parse", "work", cwd=bare)
    assert list(paths.runtime().iterdir()) == []


def test_without_one_an_address_is_refused_and_the_secret_to_set_is_named(team, other_team, host, source):
    set_key(team, host)
    with pytest.raises(Problem) as refused:
        team_credentials.credential_of(other_team, source)
    name = f"SSH_KEY_127_0_0_1_{host.port}"
    assert refused.value.extra["secret"] == {"name": name, "origin": host.origin}
    assert f"A lead can set the secret {name} with the origin {host.origin}" in refused.value.detail
    assert "HANDRAIL_GIT_HOSTS" in refused.value.detail


def test_a_host_that_shows_another_key_is_sent_nothing(team, host, source, tmp_path):
    ssh_host.make_key(tmp_path / "other")
    set_key(team, host, host_key=(tmp_path / "other.pub").read_text())
    before = host.log.read_text().count("Accepted publickey")
    with pytest.raises(running.NotLetIn, match="did not show the host key that is pinned in the secret SSH_KEY_HERE"):
        cloning.clone(source, into(tmp_path), credential=team_credentials.credential_of(team, source))
    assert host.log.read_text().count("Accepted publickey") == before


def test_a_host_that_refuses_the_key_names_the_secret(team, host, source, tmp_path):
    ssh_host.make_key(tmp_path / "stranger")
    set_key(team, host, value=(tmp_path / "stranger").read_text())
    with pytest.raises(running.NotLetIn, match="refused the ssh key in the secret SSH_KEY_HERE") as failed:
        cloning.clone(source, into(tmp_path), credential=team_credentials.credential_of(team, source))
    assert failed.value.secret == {"name": "SSH_KEY_HERE", "origin": host.origin}


def test_the_keys_and_hosts_of_handrails_user_are_not_used(team, host, source, tmp_path, settings, monkeypatch):
    """The team's key is refused; an agent with the right one is at hand, and Handrail lends it for this host."""
    ssh_host.make_key(tmp_path / "stranger")
    set_key(team, host, value=(tmp_path / "stranger").read_text())
    settings.HANDRAIL_GIT_HOSTS = [source.host]
    agent = tmp_path / "agent"
    with subprocess.Popen(["ssh-agent", "-D", "-a", agent], stdout=subprocess.DEVNULL) as running_agent:
        while not agent.exists():
            time.sleep(0.01)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
        subprocess.run(["ssh-add", "-q", host.folder / "deploy"], check=True, stderr=subprocess.DEVNULL)
        with pytest.raises(running.NotLetIn, match="refused the ssh key"):
            cloning.clone(source, into(tmp_path), credential=team_credentials.credential_of(team, source))
        running_agent.terminate()


def test_the_key_is_in_a_private_file_while_git_runs_and_in_no_argument(team, host, source, tmp_path):
    """`git` runs a program of ours in the place of ssh, which writes down what it sees."""
    set_key(team, host)
    env = running.environment_for(source, team_credentials.credential_of(team, source))
    seen = tmp_path / "seen"
    command = (
        f'alias.look=!echo "$GIT_SSH_COMMAND" >{seen}; key=$(echo "$GIT_SSH_COMMAND" | grep -o "/[^ ]*/key");'
        f' stat -c "%a %n" "$key" "$(dirname "$key")" >>{seen}; env >>{seen}; cat "$key" >{seen}.key'
    )
    with running.git_in(tmp_path) as run:
        run("-c", command, "look", env=env)
    told, secret_line = seen.read_text(), host.key.splitlines()[2]
    folder = next(paths.runtime().parent.glob("run"))
    assert f"600 {folder}/ssh-" in told
    assert f"700 {folder}/ssh-" in told
    assert Path(f"{seen}.key").read_text() == host.key
    assert secret_line not in told
    assert list(folder.iterdir()) == []


def test_the_key_is_deleted_when_the_runner_is_killed(tmp_path):
    """The warden deletes the folder that a killed runner had told it about."""
    folder = into(tmp_path, "ssh-key")
    (folder / "key").write_text("private")
    command = [sys.executable, "-I", "-S", warden.__file__]
    subprocess.run(command, input=f"+{folder}\n+{tmp_path}/kept\n-{tmp_path}/kept\n".encode(), check=True)
    assert not folder.exists()


def test_a_new_runner_deletes_the_keys_that_a_power_cut_left():
    folder = paths.runtime() / "ssh-left"
    folder.mkdir()
    (folder / "key").write_text("private")
    running.delete_keys()
    assert list(paths.runtime().iterdir()) == []


def test_what_is_shown_of_a_key(team, host):
    secret = set_key(team, host)
    told = secret_uses.of_one(secret)
    public = (host.folder / "deploy.pub").read_text().rsplit(" ", 1)[0]
    shown = subprocess.run(["ssh-keygen", "-lf", host.folder / "deploy.pub"], capture_output=True, text=True).stdout
    assert (told["kind"], told["public_key"], told["host_key"]) == ("ssh_key", public, host.host_line)
    assert told["fingerprint"] == shown.split()[1]
    event = Event.objects.get(verb="secret.set")
    assert (event.data["fingerprint"], event.data["origin"]) == (told["fingerprint"], host.origin)
    assert not any(line in repr((told, event.data)) for line in host.key.splitlines()[1:-1])


def test_another_host_key_can_be_pinned_without_the_private_key(team, host, tmp_path):
    secret = set_key(team, host)
    ssh_host.make_key(tmp_path / "other")
    secrets.change_host_key(secret, f"# a comment\n[127.0.0.1]:22 {(tmp_path / 'other.pub').read_text()}", by=BY)
    assert Secret.objects.get().host_key == (tmp_path / "other.pub").read_text().rsplit(" ", 1)[0]
    assert Event.objects.filter(verb="secret.host_key_changed").exists()


BAD = {
    "no key": ("a token", None, "value", "OpenSSH's format"),
    "a passphrase": ("locked", None, "value", "passphrase"),
    "another format": ("pem", None, "value", "ssh-keygen -p"),
    "damage": ("cut", None, "value", "damaged"),
    "no host key": (None, "", "host_key", "ssh-keyscan"),
    "a broken host key": (None, "ssh-ed25519 AAAA", "host_key", "Not a host key"),
    "an authority": (None, "@cert-authority *.example.org ssh-ed25519 AAAA", "host_key", "Not a host key"),
}


@pytest.mark.parametrize("what", BAD)
def test_other_keys_are_refused_with_a_sentence(team, host, tmp_path, what):
    value, host_key, field, words = BAD[what]
    ssh_host.make_key(tmp_path / "locked", passphrase="hunter22")
    ssh_host.make_key(tmp_path / "pem", kind="rsa", more=("-m", "PEM", "-b", "2048"))
    made = {name: (tmp_path / name).read_text() for name in ("locked", "pem")} | {"cut": host.key[:200]}
    how = {"value": made.get(value, value) or host.key, "host_key": host.host_line if host_key is None else host_key}
    with pytest.raises(Problem, match=words) as refused:
        set_key(team, host, **how)
    assert (refused.value.status, refused.value.extra["field"], Secret.objects.count()) == (422, field, 0)


def test_a_private_key_is_never_taken_for_a_token(team, host):
    for origin in ("", "https://github.com"):
        with pytest.raises(Problem, match="private key"):
            set_key(team, host, origin=origin, host_key="")
    assert not Secret.objects.exists()
