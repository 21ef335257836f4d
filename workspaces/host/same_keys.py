"""Installations on one database have the same keys: what one encrypts or signs, the other has to read and prove.

A host's row has fingerprints of its keys, never a key. Another one whose keys differ is refused at its start, in words.
"""

import hashlib
from collections.abc import Mapping
from contextlib import suppress

from django.conf import settings

from dashboard.files.atomic_write import replace_file
from dashboard.keys import keyring
from dashboard.keys.key_files import make_private
from workspaces.models import Runner

FILES = ("secret_key", "vapid", "log")  # in KEYS_DIR; made at the first start
WHAT_FOR = {
    "secret_key": "sessions",
    "ring": "secrets and memory images",
    "vapid": "push notifications",
    "log": "the signatures of manifests",
}


class KeysDiffer(Exception):
    """Another installation on this database has other keys; the text can be shown."""


def read() -> dict[str, bytes]:
    """Return the content of every key file that is made, by its name in keys/."""
    found = {name: settings.KEYS_DIR / name for name in (*FILES, "ring")}
    return {name: path.read_bytes() for name, path in found.items() if path.exists()}


def write(keys: Mapping[str, bytes]) -> None:
    """Write key files that `read` returned elsewhere, each 0600. Raise ValueError for what is no name of a key."""
    make_private(settings.KEYS_DIR)
    for name, key in keys.items():
        if "/" in name or name.startswith("."):
            raise ValueError(f"{name!r} is no name of a key")
        replace_file(settings.KEYS_DIR / name, key)


def fingerprints() -> dict[str, list[str]]:
    """Return the fingerprints of this installation's keys, newest first; without those that are not made yet."""
    found = {name: settings.KEYS_DIR / name for name in FILES}
    own = {name: [_of(name, path.read_bytes().strip())] for name, path in found.items() if path.exists()}
    if keyring.path().exists():
        with suppress(keyring.Unreadable):  # said where it is used
            own["ring"] = [_of("ring", key.id + key.bytes) for key in keyring.load().keys]
    return own


def note() -> None:
    """Note the fingerprints of this installation's keys in the row of its host, if it has one."""
    Runner.objects.filter(host=settings.HANDRAIL_HOST_NAME).update(keys=fingerprints())


def _of(name: str, key: bytes) -> str:
    """Return a fingerprint from which nobody who reads the database finds a key, even one that a person thought up."""
    return hashlib.scrypt(key, salt=f"handrail {name}".encode(), n=2**12, r=8, p=1, dklen=12).hex()


def refuse_others():
    """Raise KeysDiffer if a key here is not the newest one of each other host that uses this database."""
    here = fingerprints()
    for row in Runner.objects.members().exclude(host=settings.HANDRAIL_HOST_NAME).order_by("host"):
        lacking = [name for name, noted in row.keys.items() if noted and noted[0] not in here.get(name, [])]
        if lacking:
            told = " and ".join(f"keys/{name} ({WHAT_FOR.get(name, name)})" for name in sorted(lacking))
            raise KeysDiffer(
                f"The host {row.host} uses this database with other keys: {told} in {settings.HANDRAIL_HOME} cannot be "
                f"used beside them. Stop this Handrail and copy the folder keys/ of {row.host} (home {row.home}) here. "
                f"If that host is lost for good: `manage.py take_over_host {row.host}`."
            )
