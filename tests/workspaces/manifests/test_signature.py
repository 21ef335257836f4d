"""A downloaded manifest is verified with the public key alone, and a changed one is not."""

import hashlib
import json
import subprocess
import sys
from base64 import b64encode

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dashboard.keys import log_key
from handrail_verify import canonical
from handrail_verify import signed as signing
from handrail_verify.signed import BadManifest, verify
from tests.support import CHECKOUT


@pytest.fixture
def signed(tmp_path, settings):
    """(the download as bytes, the public key)"""
    settings.KEYS_DIR = tmp_path / "keys"
    body = {"workspace": "repo-1", "snapshot": 3, "kind": "manual", "tree": "ab" * 32, "bytes": 1 << 40, "who": "ä"}
    text = canonical.dumps(body)
    value = signing.sign(text, log_key.private_key())
    digest = hashlib.sha256(text).hexdigest()
    return json.dumps(signing.as_download(body, digest, value, log_key.public_key())).encode(), log_key.public_key()


def test_a_signed_manifest_verifies_and_gives_its_body(signed):
    download, key = signed
    assert verify(download, key)["snapshot"] == 3


def test_the_key_is_made_once_and_only_its_owner_reads_it(signed, settings):
    assert log_key.public_key() == signed[1]
    assert (settings.KEYS_DIR / "log").stat().st_mode & 0o777 == 0o600


def _changed(download, **fields) -> bytes:
    return json.dumps(json.loads(download) | fields).encode()


def _resigned(download) -> bytes:
    """Changed, with the digest that belongs to the change."""
    body = {name: value for name, value in json.loads(download).items() if name not in signing.ADDED}
    digest = hashlib.sha256(canonical.dumps(body | {"snapshot": 4})).hexdigest()
    return _changed(download, snapshot=4, sha256=digest)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (lambda d: _changed(d, snapshot=4), "SHA-256 is not that of its content"),
        (_resigned, "the signature does not belong to its content"),
        (lambda d: _changed(d, signature=None), "It is not signed"),
        (lambda d: _changed(d, signature={"algorithm": "none"}), "It is not signed"),
        (lambda d: d[:-5], "not a downloaded manifest"),
        (lambda d: d[:-1] + b', "snapshot": 3}', "not a downloaded manifest"),
        (lambda d: b"[]", "not a downloaded manifest"),
    ],
)
def test_a_changed_one_does_not(signed, how, words):
    download, key = signed
    with pytest.raises(BadManifest, match=words):
        verify(how(download), key)


def test_a_manifest_does_not_verify_with_another_key(signed):
    download, _ = signed
    other = b64encode(Ed25519PrivateKey.generate().public_key().public_bytes_raw()).decode()
    with pytest.raises(BadManifest, match="another key"):
        verify(download, other)


def test_the_command_needs_no_database(signed, tmp_path):
    download, key = signed
    (tmp_path / "m.json").write_bytes(download)
    (tmp_path / "n.json").write_bytes(_changed(download, snapshot=4))
    (tmp_path / "key").write_text(key + "\n")

    def run(name, key):
        argv = [sys.executable, "-m", "workspaces.manifests", "verify", str(tmp_path / name), "--key", key]
        done = subprocess.run(argv, cwd=CHECKOUT, env={}, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    good = (0, f"signed and unchanged: snapshot 3 of repo-1, tree {'ab' * 32}\n")
    assert [run("m.json", key), run("m.json", str(tmp_path / "key"))] == [good, good]
    assert run("n.json", key) == (1, "It was changed: its SHA-256 is not that of its content.\n")
    assert run("missing.json", key)[0] == 1
