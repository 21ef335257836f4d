"""The folder handrail_verify, alone on a machine without Handrail, finds what was changed in what Handrail exported."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import venv
from base64 import b64decode, b64encode
from contextlib import closing
from hashlib import sha256
from io import StringIO
from pathlib import Path

import cryptography
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.core.management import CommandError, call_command

from dashboard.models import Actor, Event
from handrail_verify import canonical, signed
from handrail_verify.backup import SQLITE, TAR, measure
from tests.approvals.actions.step_up.test_approve import EXPORT, answer_to, approve
from tests.approvals.conftest import FORCE
from tests.support import CHECKOUT
from tests.support.passkey import SoftPasskey

pytestmark = pytest.mark.django_db
NEEDED = ("cryptography", "cffi", "_cffi_backend*", "pycparser")


@pytest.fixture(scope="module")
def machine(tmp_path_factory) -> Path:
    """A folder that holds nothing but the copied package, and beside it a Python with cryptography alone."""
    root = tmp_path_factory.mktemp("machine")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(CHECKOUT / "handrail_verify", root / "empty" / "handrail_verify", ignore=ignored)
    venv.create(root / "venv", symlinks=True)
    [target] = (root / "venv" / "lib").glob("python*/site-packages")
    for pattern in NEEDED:
        for package in Path(cryptography.__file__).parents[1].glob(pattern):
            (target / package.name).symlink_to(package)
    return root


@pytest.fixture
def verify(machine):
    """Run it on that machine and return its exit status and what it prints."""

    def run(*arguments):
        done = subprocess.run(
            [machine / "venv" / "bin" / "python", "-m", "handrail_verify", *map(str, arguments)],
            cwd=machine / "empty",
            env={"PATH": os.defpath, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.stderr == ""
        return done.returncode, done.stdout.strip()

    return run


def test_no_package_but_cryptography_is_there(machine):
    code = "import handrail_verify.__main__, handrail_verify.passkeys, handrail_verify.signed, handrail_verify.cose\n"
    code += "import importlib.util as u\n"
    code += "print([name for name in ('django', 'fido2', 'rfc8785', 'dashboard') if u.find_spec(name)])"
    done = subprocess.run(
        [machine / "venv" / "bin" / "python", "-c", code], cwd=machine / "empty", capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_log_and_a_backup_are_verified_without_cryptography(tmp_path, log):
    code = "import sys, handrail_verify.__main__ as m; status = m.main(sys.argv[1:])\n"
    code += "assert 'cryptography' not in sys.modules; sys.exit(status)"
    subprocess.run([sys.executable, "-c", code, "log", _file(tmp_path, log)], cwd=CHECKOUT, check=True)


# The log -------------------------------------------------------------------------------------------------------------


def _export(team) -> list[bytes]:
    events = Event.objects.filter(team=team).order_by("seq")
    return [json.dumps(event.as_export(), ensure_ascii=False).encode() + b"\n" for event in events]


def _file(folder: Path, lines: list[bytes], name="log.jsonl") -> Path:
    (folder / name).write_bytes(b"".join(lines))
    return folder / name


@pytest.fixture
def log(team) -> list[bytes]:
    for number in range(5):
        data = {"comment": "naïve ✅ \u202e", "ratio": 1e-7, "n": number}
        Event.objects.record(team, actor=Actor.system("test"), verb="thing.done", subject=team, data=data)
    return _export(team)


def test_an_exported_log_verifies(verify, log, tmp_path, team):
    last = json.loads(log[-1])["seq"]
    assert verify("log", _file(tmp_path, log))[1].startswith(f"unproven: events 1 to {last} of team {team.pk}")
    status, note = verify("checkpoint", _file(tmp_path, log))
    assert (status, note.partition(":")[0]) == (0, str(last))
    assert verify("log", _file(tmp_path, log), "--checkpoint", note)[1].startswith("complete and unchanged")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: [*lines[:1], lines[1].replace(b'"n": ', b'"n": 1'), *lines[2:]], "was edited"),
        (lambda lines: [*lines[:1], lines[1].replace(b"thing.done", b"thing.dome"), *lines[2:]], "was edited"),
        (lambda lines: [*lines[:2], *lines[3:]], "is missing"),
        (lambda lines: [*lines[:1], lines[2], lines[1], *lines[3:]], "is out of order"),
        (lambda lines: [*lines, lines[-1]], "appears twice"),
        (lambda lines: lines[:-1], "The end is cut"),
        (lambda lines: [*lines[:-1], lines[-1][:-20]], "is not one JSON object"),
        (lambda lines: [], "The file is empty"),
    ],
)
def test_a_changed_log_is_found(verify, log, tmp_path, change, words):
    checkpoint = verify("checkpoint", _file(tmp_path, log))[1]
    status, said = verify("log", _file(tmp_path, change(log)), "--checkpoint", checkpoint)
    assert (status, words in said) == (1, True), said


# Signed documents ----------------------------------------------------------------------------------------------------


BODIES = {
    "manifest": {
        "workspace": "repo-1",
        "snapshot": 3,
        "kind": "manual",
        "tree": "ab" * 32,
        "who": "ä",
        "bytes": 1 << 40,
    },
    "receipt": {"receipt": 1, "about": "value", "team": "payments", "ended_at": "2026-11-29T07:00:00+00:00"},
}
PREFIXES = {"manifest": signed.PREFIX, "receipt": signed.RECEIPT_PREFIX}


@pytest.fixture
def download():
    """`download("manifest")`: (what is downloaded, the public key)."""
    key = Ed25519PrivateKey.generate()
    public = b64encode(key.public_key().public_bytes_raw()).decode()

    def make(what: str) -> tuple[str, str]:
        text = canonical.dumps(BODIES[what])
        value = signed.sign(text, key, PREFIXES[what])
        return json.dumps(signed.as_download(BODIES[what], sha256(text).hexdigest(), value, public)), public

    return make


@pytest.mark.parametrize("what", BODIES)
def test_a_signed_document_verifies_with_its_key_alone(verify, download, tmp_path, what):
    text, key = download(what)
    file = _file(tmp_path, [text.encode()])
    assert verify(what, file, "--key", key)[0] == 0
    assert verify(what, file, "--key", _file(tmp_path, [key.encode()], "key.txt"))[1].startswith("signed and unchanged")
    other = b64encode(Ed25519PrivateKey.generate().public_key().public_bytes_raw()).decode()
    assert verify(what, file, "--key", other) == (1, "It was signed with another key.")
    [wrong] = set(BODIES) - {what}
    assert verify(wrong, file, "--key", key) == (1, "It was changed: the signature does not belong to its content.")


@pytest.mark.parametrize("what", BODIES)
def test_each_changed_byte_of_a_signed_document_is_found(download, what):
    text, key = download(what)
    whole = text.encode()
    for at in range(len(whole)):
        changed = bytes([*whole[:at], whole[at] ^ 1, *whole[at + 1 :]])
        with pytest.raises(signed.BadManifest):
            signed.verify(changed, key, PREFIXES[what])


# Passkeys ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def confirmed(ask, bob, lena) -> list:
    """Two approvals that passkeys confirmed."""
    asked = [ask(FORCE), ask(EXPORT)]
    for action, person in zip(asked, (bob, lena), strict=True):
        passkey = SoftPasskey()
        passkey.add_to(person, "Phone")
        approve(action, person, answer_to(action, passkey, person))
    return asked


@pytest.fixture
def proof(confirmed, team, tmp_path) -> tuple[list[dict], Path]:
    """(what is exported of the approvals, the file with the team's log)."""
    file, said = tmp_path / "passkeys.jsonl", StringIO()
    call_command("verify_passkeys", "--export", str(file), stdout=said)
    assert said.getvalue().startswith("2 approvals with passkeys: each signature is right")
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(CommandError, match="File exists"):
        call_command("verify_passkeys", "--export", str(file), stdout=said)
    return [json.loads(line) for line in file.read_text().splitlines()], _file(tmp_path, _export(team))


def _records(folder: Path, records: list[dict]) -> Path:
    return _file(folder, [json.dumps(record).encode() + b"\n" for record in records], "changed.jsonl")


def test_exported_approvals_verify_with_the_log_and_without(verify, proof, tmp_path):
    records, log = proof
    file = _records(tmp_path, records)
    right = "2 approvals with passkeys: each signature is right"
    assert verify("passkeys", file) == (0, f"{right}. Whether the log has them, only --log tells.")
    status, said = verify("passkeys", file, "--log", log)
    assert (status, said.splitlines()[0]) == (0, f"{right}, and each is in the log.")
    assert said.splitlines()[1].startswith(f"{log}: unproven: events 1 to ")
    checkpoint = verify("checkpoint", log)[1]
    said = verify("passkeys", file, "--log", log, "--checkpoint", checkpoint)[1]
    assert said.splitlines()[1].startswith(f"{log}: complete and unchanged: events 1 to ")
    assert verify("passkeys", _records(tmp_path, records[::-1]), "--log", log)[0] == 0


def _with_call_changed(record: dict) -> dict:
    return record | {"call": b64encode(b64decode(record["call"]).replace(b"push", b"pull")).decode()}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a, b: [_with_call_changed(a), b], "The call's bytes are not those of its digest."),
        (lambda a, b: [a | {"verdict": "approve alone"}, b], "It was signed for another action"),
        (lambda a, b: [a | {"person_id": b["person_id"]}, b], "It was signed for another action"),
        (lambda a, b: [a | {"at": "2040-01-01T00:00:00+00:00"}, b], "later than the challenge allowed"),
        (lambda a, b: [a | {"passkey": b["passkey"]}, b | {"passkey": a["passkey"]}], "signed for another action"),
        (lambda a, b: [a | {"passkey": a["passkey"] | {"name": "x"}}, b], "no approval with this assertion"),
        (lambda a, b: [a | {"passkey": None}, b], "What was kept can't be read."),
        (lambda a, b: [a | {"passkey": a["passkey"] | {"public_key": "o"}}, b], "What was kept can't be read."),
        (lambda a, b: [a], "this approval is not in the file"),
        (lambda a, b: [a, a, b], "It is in the file twice."),
        (lambda a, b: [a, {}], "Line 2 is not an approval with a passkey."),
    ],
)
def test_changed_approvals_are_found(verify, proof, tmp_path, change, words):
    records, log = proof
    status, said = verify("passkeys", _records(tmp_path, change(*records)), "--log", log)
    assert (status, words in said) == (1, True), said


def test_a_part_of_a_log_is_refused_since_it_can_lack_approvals(verify, proof, tmp_path):
    records, log = proof
    file, lines = _records(tmp_path, records[:1]), log.read_bytes().splitlines(keepends=True)
    own = [line for line in lines if json.loads(line)["actor"]["id"] == records[0]["person_id"]]
    note = json.dumps({"filtered": {"actor": records[0]["person"]}}).encode() + b"\n"
    status, said = verify("passkeys", file, "--log", _file(tmp_path, [note, *own], "filtered.jsonl"))
    assert (status, "filtered.jsonl is filtered (actor=" in said) == (1, True), said
    status, said = verify("passkeys", file, "--log", _file(tmp_path, lines[1:], "later.jsonl"))
    assert (status, "later.jsonl begins at event 2: only the whole log" in said) == (1, True), said


def test_a_log_that_was_cut_is_found_by_its_checkpoint(verify, proof, tmp_path):
    """Without the last approval in either file nothing else tells that it was there."""
    records, log = proof
    file, lines = _records(tmp_path, records[:1]), log.read_bytes().splitlines(keepends=True)
    [at] = [at for at, line in enumerate(lines) if records[1]["action_id"].encode() in line and b"sha256" in line][-1:]
    cut = _file(tmp_path, lines[:at], "cut.jsonl")
    status, said = verify("passkeys", file, "--log", cut)
    assert (status, "cut.jsonl: unproven: events 1 to " in said, "complete" in said) == (0, True, False), said
    checkpoint = verify("checkpoint", log)[1]
    status, said = verify("passkeys", file, "--log", cut, "--checkpoint", checkpoint)
    assert (status, said.partition(":")[0]) == (1, "The end is cut"), said
    several = verify("passkeys", file, "--log", log, "--log", log, "--checkpoint", checkpoint)
    assert several == (1, "If one --log has a --checkpoint, each needs one, in the same order.")


# Backups and stores --------------------------------------------------------------------------------------------------


@pytest.fixture
def backup(tmp_path) -> Path:
    folder = tmp_path / "monday"
    folder.mkdir()
    with closing(sqlite3.connect(folder / SQLITE)) as database, database:
        database.execute("CREATE TABLE kept AS SELECT 1")
    (folder / TAR).write_bytes(os.urandom(5000))
    _measured(folder)
    return folder


def _measured(folder: Path, *names):
    files = {name: measure(folder / name) for name in names or (SQLITE, TAR)}
    manifest = {"format": "handrail-backup", "version": 1, "made_at": "2026-11-29T07:00:00+00:00", "files": files}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def _flipped(path: Path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_a_backup_verifies(verify, backup):
    for name in (backup, backup / "manifest.json"):
        assert verify("backup", name)[1].startswith(
            "complete and undamaged: made at 2026-11-29T07:00:00+00:00, 2 files"
        )


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda folder: _flipped(folder / TAR), "the checksum of home.tar.zst does not match"),
        (lambda folder: _flipped(folder / SQLITE), "the checksum of database.sqlite3 does not match"),
        (lambda folder: (folder / TAR).unlink(), "home.tar.zst cannot be read"),
        (lambda folder: os.truncate(folder / TAR, 4999), "the checksum of home.tar.zst does not match"),
        (lambda folder: _measured(folder, SQLITE), "does not name a database and home.tar.zst"),
        (lambda folder: (folder / "manifest.json").unlink(), "is not a complete backup"),
        (lambda folder: (folder / "manifest.json").write_text("[]"), "cannot be read"),
        (lambda folder: (os.truncate(folder / SQLITE, 4096), _measured(folder)), "The backup's database is damaged"),
    ],
)
def test_a_damaged_backup_is_found(verify, backup, damage, words):
    damage(backup)
    status, said = verify("backup", backup)
    assert (status, words in said) == (1, True), said


def test_a_store_is_refused_with_the_command_to_run_instead(verify):
    status, said = verify("store", "stores/payments")
    assert (status, "python -m workspaces.store verify --full STORE" in said) == (2, True)
