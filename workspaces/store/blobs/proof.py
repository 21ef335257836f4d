"""Prove that a bucket keeps what a store relies on: preconditions, and reads and listings that see what was written."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from ..errors import StoreError
from . import Changed

if TYPE_CHECKING:
    from .bucket_client import Client

_CREATORS = 8


class Unfit(StoreError):
    """The bucket does not keep what a store relies on."""


def prove(client: Client) -> None:
    """Write, read and delete a few small objects below `proof/`. Raise Unfit or StoreError with words for a person."""
    folder = f"proof/{os.urandom(8).hex()}"
    one, many = f"{folder}/one", f"{folder}/many"
    try:
        _preconditions(client, one)
        _race(client, many)
        _visible(client, folder, one)
    finally:
        with suppress(StoreError):
            client.delete([one, many])
    if client.exists(one):
        raise Unfit(f"{client.address} still has an object that was deleted")


def _preconditions(client: Client, name: str) -> None:
    refused = f"{client.address} cannot keep snapshots: it"
    way_out = "Use a server that honours If-None-Match and If-Match on PUT."
    first = client.create(name, b"first")
    try:
        client.create(name, b"again")
    except Changed:
        pass
    else:
        raise Unfit(f"{refused} overwrote an object that was to be created only if absent. {way_out}")
    try:
        second = client.replace(name, b"second", first)
    except Changed:
        raise Unfit(f"{refused} refused to replace an object although it had not changed. {way_out}") from None
    try:
        client.replace(name, b"stale", first)
    except Changed:
        pass
    else:
        raise Unfit(f"{refused} replaced an object although it had changed. {way_out}")
    if client.get(name) != (b"second", second):
        raise Unfit(f"{refused} did not return what was written last.")


def _race(client: Client, name: str) -> None:
    def create(number: int) -> bool:
        try:
            client.create(name, b"%d" % number)
        except Changed:
            return False
        return True

    with ThreadPoolExecutor(_CREATORS) as pool:
        winners = sum(pool.map(create, range(_CREATORS)))
    if winners != 1:
        raise Unfit(
            f"{client.address} cannot keep snapshots: {winners} of {_CREATORS} writers at once were told that they "
            "created the same object. One must be."
        )


def _visible(client: Client, folder: str, name: str) -> None:
    if {found.name for found in client.ls(folder)} != {"one", "many"}:
        raise Unfit(f"{client.address} cannot keep snapshots: a listing does not have what was written before.")
    if client.get_range(name, 1, 3) != b"eco":
        raise Unfit(f"{client.address} cannot keep snapshots: it does not return the part of an object that was asked.")
