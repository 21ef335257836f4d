"""Where the snapshot stores of teams are: in folders below HANDRAIL_HOME, or in HANDRAIL_BUCKET."""

import subprocess
import sys
import time
from functools import lru_cache
from pathlib import Path

from django.conf import settings

from dashboard.database import clock
from workspaces.host import paths
from workspaces.host.store_keys import TeamKeys
from workspaces.store import StoreError
from workspaces.store.blobs import Blobs
from workspaces.store.blobs import at as blobs_at
from workspaces.store.errors import Absent


def address_of(team_id) -> Path | str:
    """Return the folder of a team's store, or its `s3://BUCKET/PREFIX`."""
    if settings.HANDRAIL_BUCKET:
        return f"{settings.HANDRAIL_BUCKET}/stores/{team_id}"
    return paths.store_of(team_id)


def blobs_of(team_id) -> Blobs:
    """Return what `Store.open` and `Store.create` take for a team. Raise StoreError."""
    address = address_of(team_id)
    if not settings.HANDRAIL_BUCKET:
        return blobs_at(address, keys=TeamKeys(team_id))
    copies = settings.HANDRAIL_HOME / "cache" / "stores"
    return _in_bucket(address, copies, settings.HANDRAIL_BUCKET_CACHE, str(team_id))


# Kept by the process, with its connections: a page opens several stores.
@lru_cache(maxsize=1000)
def _in_bucket(address: str, copies: Path, most_bytes: int, team_id: str) -> Blobs:
    return blobs_at(address, cache=copies, cache_bytes=most_bytes, clock=now, keys=TeamKeys(team_id))


def mount_options() -> list[str]:
    """Return the options with which a process of its own opens what `address_of` names, as `blobs_of` does here."""
    if not settings.HANDRAIL_BUCKET:
        return []
    copies, most_bytes = settings.HANDRAIL_HOME / "cache" / "stores", settings.HANDRAIL_BUCKET_CACHE
    ahead = now() - time.time()
    return ["--cache", str(copies), "--cache-bytes", str(most_bytes), "--clock-ahead", f"{ahead:.3f}"]


def now() -> float:
    """Return the time by which stores are collected: the database's, in seconds since 1970."""
    return clock.now().timestamp()


def is_there(team_id) -> bool:
    """Return whether something is at the place of a team's store. Raise StoreError if the bucket does not answer."""
    if not settings.HANDRAIL_BUCKET:
        return paths.store_of(team_id).exists()
    try:
        blobs_of(team_id).identity()
    except Absent:
        return False
    return True


def prove() -> None:
    """Prove that the bucket keeps what stores rely on; without one do nothing. Raise StoreError with words.

    In a process of its own: the threads of obstore do not outlive a fork, and the supervisor forks all parts.
    """
    if not settings.HANDRAIL_BUCKET:
        return
    command = [sys.executable, "-m", "workspaces.store", "prove", settings.HANDRAIL_BUCKET]
    done = subprocess.run(command, cwd=settings.BASE_DIR, capture_output=True, text=True, check=False)
    if done.returncode:
        words = done.stderr.strip().splitlines() or [f"the proof ended with {done.returncode}"]
        raise StoreError(words[-1].partition(": ")[2] or words[-1])


def reach() -> None:
    """Ask the bucket for something; without one do nothing. Raise StoreError if it does not answer."""
    if settings.HANDRAIL_BUCKET:
        from workspaces.store.blobs.bucket_client import Client

        Client.at(settings.HANDRAIL_BUCKET, patience=0).exists("proof/none")
