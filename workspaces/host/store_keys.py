"""The keys that encrypt the snapshot store of a team, as an option; each is encrypted with the key ring, in its row."""

from django.db import transaction

from dashboard.database import clock
from dashboard.keys import keyring
from dashboard.models import Actor, Event, Team
from workspaces.models import StoreKey
from workspaces.store.errors import NoKey
from workspaces.store.sealing import Key, Keys


class TeamKeys(Keys):
    """The keys of a team, as the database has them now: another host may have made a new one."""

    def __init__(self, team_id):
        super().__init__()
        self._team_id = team_id

    def newest(self) -> Key | None:
        row = self._rows().order_by("-created_at", "-pk").first()
        return self.find(bytes.fromhex(row.named)) if row else None

    def find(self, key_id: bytes) -> Key | None:
        return super().find(key_id) or self._loaded(key_id)

    def _loaded(self, key_id: bytes) -> Key | None:
        row = self._rows().filter(named=key_id.hex()).first()
        if row is None:
            return None
        self._keys += (key := _key_of(row),)
        return key

    def _rows(self):
        return StoreKey.objects.filter(team=self._team_id)


class AnyKeys(TeamKeys):
    """The keys of all teams, for what says itself which one it needs."""

    def __init__(self):
        super().__init__(None)

    def _rows(self):
        return StoreKey.objects.all()


def _key_of(row: StoreKey) -> Key:
    """Return the key of a row. Raise NoKey if the key ring here does not fit."""
    try:
        return Key.of(keyring.load().decrypt(row.value, associated_data(row)))
    except keyring.Unreadable as error:
        raise NoKey(f"the key {row.named} of the snapshot store cannot be read: {error}") from None


def keys_of(team_id) -> list[Key]:
    """Return the keys of a team, newest first; [] if its store is not encrypted. Raise NoKey."""
    return [_key_of(row) for row in StoreKey.objects.filter(team=team_id).order_by("-created_at", "-pk")]


def add(team: Team, *, by: Actor) -> Key:
    """Make a new key, with which what the team's store writes from now on is encrypted. The older ones still read."""
    key = Key.fresh()
    row = StoreKey(team=team, named=key.id.hex(), created_at=clock.now())
    with keyring.steady() as ring, transaction.atomic():
        row.value = ring.encrypt(key.bytes, associated_data(row))
        row.save(force_insert=True)
        Event.objects.record(team, actor=by, verb="store.key_added", subject=team, data={"key": row.named})
    return key


def associated_data(row: StoreKey) -> str:
    return f"store key {row.team_id} {row.named}"


def encrypted_column():
    """Return the rows and the function to the associated data, for a rotation of the ring."""
    return StoreKey.objects.all(), associated_data
