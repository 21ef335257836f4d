"""Read the snapshot store of a team through the runner of the host that has it, where no bucket is shared.

Index segments are copied once, as they never change; blocks of packs are read as they are needed. Only the host that
has the store writes it.
"""

from collections import OrderedDict
from pathlib import Path
from threading import Lock

from django.conf import settings

from dashboard.files.atomic_write import replace_file
from dashboard.keys.key_files import make_private
from dashboard.problems import Problem
from workspaces.host import leads
from workspaces.host.leads import Lead
from workspaces.host.store_keys import TeamKeys
from workspaces.models import Runner
from workspaces.operations import runner_client
from workspaces.store import Store, StoreError
from workspaces.store.blobs import Read
from workspaces.store.blobs.folder import FolderBlobs

MOST_OPEN = 8  # stores that stay open
_open: OrderedDict[tuple, Store] = OrderedDict()
_lock = Lock()


def opened(team_id, host: str, store_id: str) -> Store | None:
    """Open the store of a team that a host has; None if that has no address. Problem 503 if it does not answer.

    It may show the store as of a moment ago: what it lacks is looked up in the present one.
    """
    row = Runner.objects.filter(host=host).first()
    lead = leads.of_row(row) if row is not None else None
    if lead is None or not lead.address:
        return None
    key = (team_id, lead, store_id)
    with _lock:
        found = _open.get(key)
        if found is not None:
            _open.move_to_end(key)
            return found
    found = Store.open(BlobsElsewhere(team_id, lead, store_id))
    with _lock:
        _open[key] = found
        while len(_open) > MOST_OPEN:
            _open.popitem(last=False)
    return found


class PackElsewhere:
    """A pack on the other host."""

    def __init__(self, ask, name: str):
        self._ask, self.name = ask, name

    def read(self, offset: int, length: int) -> bytes:
        return self._ask(f"packs/{self.name}", offset=offset, length=length)

    def size(self) -> int:
        return int(self._ask(f"packs/{self.name}/size"))


class BlobsElsewhere(FolderBlobs):
    """The folder of a store on another host; the own folder has copies of its index."""

    def __init__(self, team_id, lead: Lead, store_id: str):
        super().__init__(make_private(settings.HANDRAIL_HOME / "store-copies" / str(team_id)))
        self._team_id, self._lead, self._id = team_id, lead, store_id
        self.caches, self.host, self.keys = self.path, lead.host, TeamKeys(team_id)

    def _ask(self, what: str, **query) -> bytes:
        """Return what the other host's runner sends. FileNotFoundError for what is gone; Problem 503."""
        try:
            return b"".join(runner_client.pieces_of_runner(self._lead, f"/stores/{self._team_id}/{what}", **query))
        except Problem as problem:
            if problem.status == 404:
                raise FileNotFoundError(what) from None
            raise

    def identity(self) -> str:
        return self._id

    def head(self, known: Read | None = None) -> Read:
        data = self._ask("head")
        return known if known and known.data == data else Read(data, "")

    def segment(self, name: str) -> Path:
        copy = self.path / "index" / name
        if not copy.exists():
            copy.parent.mkdir(mode=0o700, exist_ok=True)
            replace_file(copy, self._ask(f"index/{name}"))
        return copy

    def pack(self, head, number: int) -> PackElsewhere:
        return PackElsewhere(self._ask, self.name_of(head, number))

    def stored_bytes(self, head) -> int:
        return int(self._ask("bytes"))

    def writing(self, **how):
        raise StoreError(f"the store is on {self._lead.host}, which alone writes it")

    def held(self, head, at=None) -> set[bytes]:
        return set()  # only a collection asks, which is done where the store is
