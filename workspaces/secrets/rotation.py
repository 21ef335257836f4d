"""Every value that is encrypted with the keys of the ring: encrypt them anew, and read or forget them."""

from collections.abc import Sequence
from typing import Protocol

from dashboard.database.one_at_a_time import one_at_a_time
from dashboard.keys import keyring, sealed_files
from dashboard.workers.failpoints import failpoint
from workspaces import extensions
from workspaces.host import membership, program_leads, run_leads, store_keys
from workspaces.models import HandedSecret, Secret
from workspaces.secrets import associated_data, credentials, handed_associated_data

ROTATING = 0x4861_6E64_726F_7461  # the advisory lock of a rotation on PostgreSQL


def encrypted_columns():
    """Return (queryset, function to the associated data) of each column encrypted with the ring's keys."""
    own = [(Secret.objects.all(), associated_data), (HandedSecret.objects.all(), handed_associated_data)]
    own.append(credentials.encrypted_column())
    return [
        *own,
        membership.encrypted_column(),
        program_leads.encrypted_column(),
        run_leads.encrypted_column(),
        store_keys.encrypted_column(),
        *(column() for column in extensions.encrypted),
    ]


class HandOn(Protocol):
    """Gives keys to the other hosts that share the database."""

    def __call__(self, keys: Sequence[keyring.Key], *, first: bool = False, only: bool = False) -> None:
        """Add keys to each ring; `first`: as the newest; `only`: without what nothing there needs. May raise."""


def _to_nobody(keys, *, first=False, only=False):
    """Do nothing: the database has one host."""


def rotate(say=print, hand_on: HandOn = _to_nobody) -> keyring.Ring:
    """Add a key, encrypt all values with it and remove the old keys. A rotation that was killed continues.

    A value that was encrypted with an old key meanwhile keeps that key in the ring until the next rotation. Every host
    has the new key before any of them encrypts with it, and encrypts with it before the old ones go. Two rotations
    follow each other: one would take away the key that the other has just added.
    """
    with one_at_a_time(ROTATING):
        return _rotated(say, hand_on)


def _rotated(say, hand_on: HandOn) -> keyring.Ring:
    fresh = (keyring.fresh(),)
    hand_on(fresh)
    ring = keyring.add(fresh, first=True)
    failpoint("rotate.added")
    hand_on(ring.keys, first=True)
    moved, unreadable = _encrypt_anew(ring)
    failpoint("rotate.moved")
    ring = keyring.keep_only(_needed)
    hand_on(ring.keys, first=True, only=True)
    say(f"Encrypted {moved} values with a new key. Keys in the ring: {len(ring.keys)}.")
    if unreadable:
        say(f"{unreadable} could not be read with any key of the ring and were not changed: set those secrets again.")
    return ring


def _encrypt_anew(ring: keyring.Ring) -> tuple[int, int]:
    """Return how many values were encrypted with the newest key, and how many cannot be read."""
    moved = unreadable = 0
    for rows, about in encrypted_columns():
        for row in list(rows):
            if keyring.key_id(row.value) == ring.newest.id:
                continue
            failpoint("rotate.row")
            try:
                fresh = ring.encrypt(ring.decrypt(row.value, about(row)), about(row))
            except keyring.Unreadable:
                unreadable += 1
                continue
            # Skips a row whose value was changed meanwhile; that value is encrypted with the new key.
            moved += rows.filter(pk=row.pk, value=bytes(row.value)).update(value=fresh)
    return moved, unreadable


def forget_unreadable() -> int:
    """Delete the values that no key of the ring can decrypt; return their number."""
    ring, gone = keyring.load(), 0
    for rows, about in encrypted_columns():
        for row in list(rows):
            try:
                ring.decrypt(row.value, about(row))
            except keyring.Unreadable:
                gone += rows.filter(pk=row.pk).delete()[0] > 0
    return gone


def decrypted(row, about) -> str:
    """Return the value of a row of one of `encrypted_columns`; "" if no key of the ring can decrypt it."""
    try:
        return keyring.load().decrypt(row.value, about(row)).decode("utf-8", "replace")
    except keyring.Unreadable:
        return ""


def _needed() -> set[bytes]:
    found = {keyring.key_id(value) for rows, _ in encrypted_columns() for value in rows.values_list("value", flat=True)}
    return found | sealed_files.keys_in_use()
