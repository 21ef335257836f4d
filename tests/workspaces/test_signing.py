"""Commits and tags made in a workspace carry the signature of the team's key, which never is inside."""

import base64
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.support.desk import Desk
from workspaces.provisioning.git import signing

KEYS = Path(tempfile.mkdtemp(prefix="signing-"))


def made_key(name, *how):
    path = KEYS / name
    if not path.exists():
        subprocess.run(["ssh-keygen", "-q", *how, "-N", "", "-C", "", "-f", path], check=True)
    return path.read_text(), path.with_suffix(".pub").read_text().strip()


def git(folder, *args, **how):
    own = ["-c", "user.name=T", "-c", "user.email=t@example.org"]
    return subprocess.run(["git", *own, *args], cwd=folder, check=True, capture_output=True, text=True, **how).stdout


def test_git_verifies_what_is_signed_here_and_the_hash_is_that_of_the_object(tmp_path):
    text, public = made_key("one", "-t", "ed25519")
    key = signing.key_of(text)
    assert signing.public_of(key) == public
    (tmp_path / "signers").write_text(f'*@example.org namespaces="git" {public}\n')
    for number, kind in enumerate(("sha1", "sha256")):
        folder = tmp_path / kind
        folder.mkdir()
        git(folder, "init", "-q", f"--object-format={kind}")
        git(folder, "config", "gpg.ssh.allowedSignersFile", str(tmp_path / "signers"))
        git(folder, "commit", "-q", "--allow-empty", "-m", f"first {number}\n\nbody")
        content = git(folder, "cat-file", "commit", "HEAD").encode()
        unsigned = signing.read(content)
        assert (unsigned.kind, unsigned.by) == ("commit", ("T", "t@example.org"))
        assert unsigned.subject == f"first {number}"
        signature = signing.sign(key, content)
        name = "gpgsig-sha256" if kind == "sha256" else "gpgsig"
        head, _, message = content.decode().partition("\n\n")
        whole = f"{head}\n{name} {signature.strip().replace(chr(10), chr(10) + ' ')}\n\n{message}"
        sha = git(folder, "hash-object", "-t", "commit", "-w", "--stdin", input=whole).strip()
        assert sha == signing.sha_of(unsigned, signature)
        git(folder, "verify-commit", sha)
        content = (
            f"object {sha}\ntype commit\ntag v1\ntagger T <t@example.org> 1700000000 +0000\n\nversion 1\n".encode()
        )
        signature = signing.sign(key, content)
        tag = git(folder, "hash-object", "-t", "tag", "-w", "--stdin", input=content.decode() + signature).strip()
        assert tag == signing.sha_of(signing.read(content), signature)
        git(folder, "verify-tag", tag)


TREE = b"tree " + b"4b825dc642cb6eb9a060e54bf8d69288fbee4904"
BY = b"author A <a@b> 1 +0000\ncommitter C <c@d> 2 +0000"
NOTHING = [
    b"",
    b"hello",
    TREE,
    TREE + b"\nauthor A <a@b> 1 +0000\n\nx",
    TREE + b"\n" + BY + b"\ncommitter D <d@e> 3 +0000\n\nx",
    TREE + b"\n" + BY + b"\ngpgsig -----BEGIN\n\nx",
    TREE + b"\n" + BY + b"\n\nx\0",
    b"object 1\ntype commit\ntag v\n\nx",
    b"blob\n\n" + BY,
    TREE + b"\n" + BY + b"\n\n" + b"x" * signing.MOST_BYTES,
]


@pytest.mark.parametrize("content", NOTHING, ids=range(len(NOTHING)))
def test_nothing_but_one_commit_or_tag_is_read(content):
    with pytest.raises(signing.NotToSign):
        signing.read(content)


def test_other_keys_are_refused_by_name_of_the_field(product):
    lead = Desk(product, product.person_token("lead-of-keys", "lead"))
    rsa, _ = made_key("rsa", "-t", "rsa", "-b", "2048")
    path = KEYS / "locked"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "words", "-f", path], check=True)
    for value, words in ((rsa, "ed25519"), (path.read_text(), "passphrase"), ("a text", "ed25519")):
        told = lead.call("PUT", "/secrets/SIGNING_KEY", {"scope": "signing", "value": value}, 422).json
        assert (told["field"], words in told["detail"]) == ("value", True)


@pytest.fixture
def signed(product):
    """A lead whose team has a signing key; the public key."""
    lead = Desk(product, product.person_token("lead-of-signing", "admin"))
    text, public = made_key("team", "-t", "ed25519")
    lead.call("PUT", "/secrets/SIGNING_KEY", {"scope": "signing", "value": text})
    yield lead, public
    lead.call("DELETE", "/secrets/SIGNING_KEY", expect=204)


def test_the_commits_of_an_agent_verify_and_the_key_is_nowhere_inside(desk, signed, product, tmp_path):
    lead, public = signed
    told = lead.get("/secrets/SIGNING_KEY").json
    assert told["public_key"] == public
    assert public in told["allowed_signers"]
    source = Path(tempfile.mkdtemp(prefix="signed-", dir=product.sources))
    git(source, "init", "-q", "-b", "main")
    git(source, "commit", "-q", "--allow-empty", "-m", "first")
    key = desk.create(source={"git": str(source)})["key"]
    script = """git commit -q --allow-empty -m 'Say hello'; git tag -am 'a version' v1; git verify-commit HEAD 2>&1
        git verify-tag v1 2>&1; git config user.signingKey; env -u HANDRAIL_TOKEN git commit -q --allow-empty -m second
        git config --show-origin --list | grep -ci 'private' || true; git rev-parse HEAD~ HEAD v1"""
    said = desk.run(key, script).decode().splitlines()
    assert [line.partition(" for ")[0] for line in said[:2]] == ['Good "git" signature'] * 2
    assert (said[2], said[3]) == (public, "0")
    first, second, tag = said[4:]
    events = [
        row for row in lead.get(f"/events?workspace={key}").json["events"] if row["verb"] == "workspace.commit_signed"
    ]
    mine = {(row["data"]["kind"], row["data"]["sha"], row["data"]["subject"]) for row in events}
    assert {("commit", first, "Say hello"), ("commit", second, "second"), ("tag", tag, "a version")} <= mine
    bundle = lead.get(f"/workspaces/{key}/bundle").body
    (tmp_path / "bundle").write_bytes(bundle)
    (tmp_path / "signers").write_text(f"{told['allowed_signers']}\n")
    git(source, "fetch", "-q", str(tmp_path / "bundle"), "HEAD")
    git(source, "-c", f"gpg.ssh.allowedSignersFile={tmp_path}/signers", "verify-commit", second)
    # Another committer, another object and another namespace are not signed; an unsigned commit is possible.
    other = "GIT_COMMITTER_EMAIL=x@example.org git commit -q --allow-empty -m x 2>&1; git rev-parse HEAD"
    said = desk.run(key, other).decode()
    assert "Only commits by" in said
    assert "git -c commit.gpgSign=false commit" in said
    assert said.split()[-1] == second
    desk.run(key, "echo text > /tmp/t; /etc/handrail/sign -Y sign -n git -f x /tmp/t", expect_exit=1)
    desk.run(
        key, "git -c commit.gpgSign=false commit -q --allow-empty -m unsigned; git cat-file -p HEAD | grep -c gpgsig", 1
    )


def test_nobody_else_has_anything_signed(desk, signed):
    lead, _ = signed
    key = desk.create()["key"]
    content = base64.b64encode(TREE + b"\n" + BY + b"\n\nx\n").decode()
    for who in (lead, desk):
        told = who.post(f"/workspaces/{key}/signatures", {"object": content}, expect=403).json
        assert told["detail"] == "Only programs inside of the workspace have commits signed."


def test_an_environment_leaves_commits_unsigned(desk, signed):
    lead, _ = signed
    name = f"plain-{os.urandom(4).hex()}"
    lead.post("/environments", {"name": name, "driver": "sandbox", "sign_commits": False})
    key = desk.create(environment=name)["key"]
    script = "git init -q; git commit -q --allow-empty -m x; git cat-file -p HEAD | grep -c gpgsig || true"
    assert desk.run(key, script) == b"0\n"
    desk.run(key, "ls /etc/handrail/sign", expect_exit=2)
