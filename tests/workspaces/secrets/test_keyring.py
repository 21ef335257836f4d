"""The ring, rotation and sealed streams: nothing is lost, and nothing is read where it was not written."""

import io
import os
import subprocess
import sys
import threading
import uuid

import pytest
from django.conf import settings
from django.db import connection, connections

from dashboard.keys import keyring, sealed_files
from dashboard.keys.keyring import Unreadable
from dashboard.models import Actor
from tests.support import CHECKOUT
from tests.support.waiting import until
from workspaces import secrets
from workspaces.models import Environment, HandedSecret, Secret, Workspace
from workspaces.secrets import rotation

BY = Actor.system("test")


@pytest.fixture(autouse=True)
def own_ring(tmp_path, monkeypatch):
    monkeypatch.setattr(settings, "KEYS_DIR", tmp_path / "keys")


def test_the_newest_key_encrypts_and_all_decrypt():
    old = keyring.load()
    written = old.encrypt(b"value", "here")
    ring = keyring.add((keyring.fresh(),), first=True)
    assert [key.id for key in ring.keys[1:]] == [old.newest.id]
    assert ring.decrypt(written, "here") == b"value"
    assert keyring.key_id(ring.encrypt(b"value", "here")) == ring.newest.id != old.newest.id
    assert os.stat(keyring.path()).st_mode & 0o777 == 0o600


def test_what_was_changed_moved_or_is_of_another_ring_is_unreadable():
    ring = keyring.load()
    written = ring.encrypt(b"value", "here")
    flipped = written[:-1] + bytes([written[-1] ^ 1])
    for changed, about in ((written, "there"), (flipped, "here"), (b"value", "here")):
        with pytest.raises(Unreadable):
            ring.decrypt(changed, about)
    keyring.path().unlink()
    with pytest.raises(Unreadable, match="not in the key ring"):
        keyring.load().decrypt(written, "here")


def test_a_ring_that_others_can_read_is_refused():
    keyring.load()
    keyring.path().chmod(0o640)
    with pytest.raises(Unreadable, match="chmod 600"):
        keyring.load()


def test_ten_who_are_first_agree_on_one_ring():
    found = []
    threads = [threading.Thread(target=lambda: found.append(keyring.load().newest.id)) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1


def test_a_ciphertext_in_another_row_is_not_handed_out(team):
    a, b = (secrets.save(team, name, "agent", f"value of {name}", by=BY) for name in ("A_KEY", "B_KEY"))
    Secret.objects.filter(pk=b.pk).update(value=a.value)
    environment = Environment.objects.create(team=team, name="e", secrets={"agent": ["A_KEY", "B_KEY"]})
    workspace = Workspace.objects.create(team=team, key="w", environment=environment)
    assert secrets.for_phase(workspace, "agent") == {"A_KEY": "value of A_KEY"}
    assert secrets.statuses(environment) == [("agent", "A_KEY", "set"), ("agent", "B_KEY", "unreadable")]


# Rotation -------------------------------------------------------------------------------------------------------------


def readable(ring):
    found = {row.name: ring.decrypt(row.value, secrets.associated_data(row)).decode() for row in Secret.objects.all()}
    handed = {row.name: ring.decrypt(row.value, secrets.handed_associated_data(row)).decode() for row in handed_rows()}
    return found, handed


def handed_rows():
    return HandedSecret.objects.all()


@pytest.fixture
def filled(team):
    """Ten secrets, three of them handed to a workspace; {name: value}."""
    values = {f"KEY_{n}": f"value number {n}" for n in range(10)}
    for name, value in values.items():
        secrets.save(team, name, "agent", value, by=BY)
    names = ["KEY_0", "KEY_1", "KEY_2"]
    environment = Environment.objects.create(team=team, name="e", secrets={"agent": names})
    secrets.for_phase(Workspace.objects.create(team=team, key="w", environment=environment), "agent")
    return values, {name: values[name] for name in names}


def test_rotation_loses_nothing_and_removes_the_old_key(filled):
    old = keyring.load()
    ring = rotation.rotate(say=lambda said: None)
    assert (len(ring.keys), ring.newest.id != old.newest.id) == (1, True)
    assert readable(ring) == filled


def test_no_host_encrypts_with_a_key_that_another_one_lacks(filled):
    old, handed_on = keyring.load().newest, []

    def hand_on(keys, *, first=False, only=False):
        own, needed = keyring.load().keys, rotation._needed()
        handed_on.append((list(keys), first, only, own, needed))

    ring = rotation.rotate(say=lambda said: None, hand_on=hand_on)
    assert handed_on == [
        ([ring.newest], False, False, (old,), {old.id}),
        ([ring.newest, old], True, False, (ring.newest, old), {old.id}),
        ([ring.newest], True, True, (ring.newest,), {ring.newest.id}),
    ]


@pytest.mark.skipif(connection.vendor != "postgresql", reason="on SQLite one host has the database to itself")
@pytest.mark.django_db(transaction=True)
def test_two_rotations_follow_each_other(filled):
    seen, others = [], []

    def other():
        try:
            rotation.rotate(say=lambda words: None, hand_on=lambda keys, **how: seen.append("other"))
        finally:
            connections.close_all()

    def hand_on(keys, *, first=False, only=False):
        if not others:
            others.append(threading.Thread(target=other))
            others[0].start()
            until(waits_for_the_lock)
        seen.append("first")

    rotation.rotate(say=lambda words: None, hand_on=hand_on)
    others[0].join(30)
    assert seen == ["first"] * 3 + ["other"] * 3
    assert readable(keyring.load()) == filled


def waits_for_the_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
        return cursor.fetchone()[0] > 0


def test_a_host_that_does_not_take_the_key_ends_a_rotation_before_it_begins(filled):
    old = keyring.load()

    def hand_on(keys, **how):
        raise ConnectionError

    with pytest.raises(ConnectionError):
        rotation.rotate(say=lambda said: None, hand_on=hand_on)
    assert (keyring.load(), readable(old)) == (old, filled)


def test_keys_of_another_host_are_older_ones_until_they_are_the_newest():
    own, other = keyring.load().newest, keyring.fresh()
    assert keyring.add((other,), first=False).keys == (own, other)
    assert keyring.add((other,), first=False).keys == (own, other)
    assert keyring.add((other, own), first=True).keys == (other, own)
    assert keyring.parsed(keyring.written((other, own))) == (other, own)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("point", ["rotate.added", "rotate.row", "rotate.moved"])
def test_a_rotation_that_is_killed_goes_on_where_it_was(filled, point, tmp_path):
    script = f"""
import django; django.setup()
from pathlib import Path
from django.conf import settings
from django.db import connection
settings.KEYS_DIR = Path({str(settings.KEYS_DIR)!r})
connection.settings_dict["NAME"] = {connection.settings_dict["NAME"]!r}
from workspaces.secrets import rotation
rotation.rotate()
"""
    environment = os.environ | {"HANDRAIL_FAILPOINT": point}
    died = subprocess.run([sys.executable, "-c", script], cwd=CHECKOUT, env=environment, capture_output=True, text=True)
    assert died.returncode == -9, died.stderr
    ring = keyring.load()
    assert readable(ring) == filled
    assert len(ring.keys) == 2
    ring = rotation.rotate(say=lambda said: None)
    assert (len(ring.keys), readable(ring)) == (1, filled)


def test_an_old_key_stays_for_what_needs_it(filled):
    image = settings.HANDRAIL_HOME / "workspaces" / str(uuid.uuid4()) / "memory"
    image.parent.mkdir(parents=True)
    try:
        with open(image, "wb") as out:
            sealed_files.seal(io.BytesIO(b"memory"), out, about="a pause")
        assert len(rotation.rotate(say=lambda said: None).keys) == 2
        out = io.BytesIO()
        with open(image, "rb") as sealed:
            sealed_files.unseal(sealed, out, about="a pause")
        assert out.getvalue() == b"memory"
    finally:
        image.unlink()
    assert len(rotation.rotate(say=lambda said: None).keys) == 1
    assert readable(keyring.load()) == filled


def test_a_lost_key_ring_is_named_and_can_be_replaced(filled, team):
    keyring.path().unlink()
    said = []
    rotation.rotate(say=said.append)
    assert "13 could not be read" in said[-1]
    assert rotation.forget_unreadable() == 13
    secrets.save(team, "KEY_0", "agent", "a new value", by=BY)
    assert readable(keyring.load())[0] == {"KEY_0": "a new value"}


# Sealed streams -------------------------------------------------------------------------------------------------------


class Drips(io.BytesIO):
    """A pipe that gives a little at a time."""

    def read(self, size=-1):
        return super().read(min(size, 70_001))


@pytest.mark.parametrize("size", [0, 1, sealed_files.PIECE - 1, sealed_files.PIECE, 3 * sealed_files.PIECE + 5])
def test_a_stream_comes_back_and_says_nothing_of_itself(size):
    data = (b"canary in memory " * (size // 17 + 1))[:size]
    sealed, out = io.BytesIO(), io.BytesIO()
    assert sealed_files.seal(Drips(data), sealed, about="here") == size
    assert b"canary" not in sealed.getvalue()
    assert sealed_files.unseal(Drips(sealed.getvalue()), out, about="here") == size
    assert out.getvalue() == data


def test_a_stream_that_was_touched_is_unreadable():
    sealed = io.BytesIO()
    sealed_files.seal(io.BytesIO(os.urandom(2 * sealed_files.PIECE + 9)), sealed, about="here")
    good, piece, start = sealed.getvalue(), sealed_files.PIECE + sealed_files.TAG, sealed_files.HEADER
    swapped = good[:start] + good[start + piece : start + 2 * piece] + good[start : start + piece]
    for bad in (good[:-1], good[: start + piece], good[:20], b"", swapped, good[:-1] + b"\0\0", b"x" * 5000):
        with pytest.raises(Unreadable):
            sealed_files.unseal(io.BytesIO(bad), io.BytesIO(), about="here")
    with pytest.raises(Unreadable):
        sealed_files.unseal(io.BytesIO(good), io.BytesIO(), about="there")
