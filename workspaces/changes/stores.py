"""Open the snapshot store of a team, and check that it is the one that holds its snapshots.

The database has the id from the store's `format` file. A missing store (its disk is not mounted) or another store in
its place is reported, and neither used nor replaced until somebody accepts it.
"""

from contextlib import suppress
from functools import partial

from django.conf import settings
from django.core.cache import cache

from dashboard.models import Actor, Event, Team
from dashboard.problems import Problem
from workspaces.changes import store_elsewhere
from workspaces.changes.store_elsewhere import BlobsElsewhere
from workspaces.host import paths, team_stores
from workspaces.models import Runner, Snapshot, StoreIdentity, Workspace
from workspaces.store import Store, StoreError

KEPT_SECONDS = 5  # for which a process remembers which host has a team's store, for pages with many rows
WAY_OUT = "Mount its disk, or restore a backup. If it is lost: `manage.py accept_store TEAM`."


class NoStore(StoreError):
    """The team has no snapshot yet."""


class WrongStore(StoreError):
    """The team's store is missing, or another one is in its place."""


class Elsewhere(WrongStore):
    """The team's store is on another host of this database."""


def is_expected(team_id) -> bool:
    """Return True if the team must have a store, because it has or had snapshots."""
    known = StoreIdentity.objects.filter(team=team_id).exists()
    return known or team_stores.is_there(team_id) or Snapshot.objects.filter(workspace__team=team_id).exists()


def opened(team_id) -> Store:
    """Open the team's store. Raises NoStore, WrongStore, StoreError."""
    path = team_stores.address_of(team_id)
    rows = StoreIdentity.objects.filter(team=team_id).values_list("store_id", "host")
    known, host = rows.first() or (None, "")
    if not team_stores.is_there(team_id):
        if known is None and not Snapshot.objects.filter(workspace__team=team_id).exists():
            raise NoStore(f"there is no store at {path}")
        if host not in ("", _host()) and not settings.HANDRAIL_BUCKET:
            return _opened_elsewhere(team_id, host, known)
        if settings.HANDRAIL_BUCKET and paths.store_of(team_id).exists():
            raise WrongStore(f"they are still in {paths.store_of(team_id)}; `manage.py stores_to_bucket` copies them")
        raise WrongStore(f"the snapshot store is missing: there is no {path}")
    store = Store.open(team_stores.blobs_of(team_id))
    if known is not None and store.id != known:
        raise WrongStore(f"{path} holds another snapshot store than the one that this team's snapshots were kept in")
    return store


def _opened_elsewhere(team_id, host: str, known: str) -> Store:
    if (found := store_elsewhere.opened(team_id, host, known)) is None:
        raise Elsewhere(f"they are on {host}, which this address cannot reach")
    return found


def readable(team_id) -> Store:
    """Open the team's store to look something up, wherever it is, without the check that it is the right one.

    Raises StoreError, and Problem 503 if its host does not answer.
    """
    try:
        return Store.open(team_stores.blobs_of(team_id))
    except StoreError:
        host, store_id = cache.get_or_set(f"store-elsewhere:{team_id}", partial(_elsewhere, team_id), KEPT_SECONDS)
        if not host:
            raise
        return _opened_elsewhere(team_id, host, store_id)


def _elsewhere(team_id) -> tuple[str, str]:
    """Return (host, store id) of a team whose store is on another host; empty texts without one."""
    others = StoreIdentity.objects.filter(team=team_id).exclude(host__in=["", settings.HANDRAIL_HOST_NAME])
    return others.values_list("host", "store_id").first() or ("", "")


def opened_here(team_id) -> Store:
    """Open the team's store as `opened` does; Elsewhere if another host has it."""
    store = opened(team_id)
    if isinstance(store.blobs, BlobsElsewhere):
        raise Elsewhere(f"they are on another host: {store.blobs.host}")
    return store


def opened_to_write(team_id) -> Store:
    """Open the team's store for writing; the first use creates it and records its id. Raises WrongStore, StoreError."""
    try:
        store = opened_here(team_id)
    except NoStore:
        store = _created(team_id)
    here = _host()
    known, _ = StoreIdentity.objects.get_or_create(team_id=team_id, defaults={"store_id": store.id, "host": here})
    if known.host != here:  # from before hosts were noted, or its host has another name now
        StoreIdentity.objects.filter(team=team_id).update(host=here)
    return store


def _created(team_id) -> Store:
    blobs = team_stores.blobs_of(team_id)
    if not blobs.shared:
        blobs.address.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        return Store.create(blobs)
    except StoreError:
        if not team_stores.is_there(team_id):
            raise
        return Store.open(blobs)  # another workspace of the team created it meanwhile


def _host() -> str:
    """Return the host that alone has the stores, "" where they are in a bucket."""
    return "" if settings.HANDRAIL_BUCKET else settings.HANDRAIL_HOST_NAME


def is_wrong(team) -> bool:
    """Return True if the team must have a store, and its store is missing, on another host or not the one noted."""
    try:
        opened_here(team.pk)
    except WrongStore:
        return True
    except StoreError:  # it has none yet, or the check reports a damaged one
        return False
    return False


def troubles() -> list[tuple[Team, str]]:
    """Return (team, message) of each team whose store is missing or the wrong one."""
    found = []
    for team in Team.objects.order_by("slug"):
        if is_expected(team.pk):
            try:
                opened_here(team.pk).catalog.refresh()  # also where a copy of the head would do
                opened_here(team.pk)
            except Elsewhere:
                pass
            except WrongStore as error:
                found.append((team, str(error)))
            except StoreError:  # the check reports a damaged one
                pass
    return found


def in_bucket() -> dict[str, dict]:
    """Return {team: address, id, generation and ETag of the head} of the stores in HANDRAIL_BUCKET, for a backup."""
    found = {}
    for team in Team.objects.order_by("slug") if settings.HANDRAIL_BUCKET else ():
        with suppress(NoStore):
            store = opened(team.pk)
            store.catalog.refresh()
            view = store.catalog.view
            found[team.slug] = {
                "address": store.path, "id": store.id, "generation": view.head.generation, "etag": view.read.tag,
            }  # fmt: skip
    return found


def accept(team, *, by: Actor) -> tuple[Store, int]:
    """Accept the store at the team's path, or create an empty one; return (store, number of snapshots it lacks).

    A workspace whose newest snapshot is lost starts a new history from its files. StoreError while the host that has
    the store is running.
    """
    known = StoreIdentity.objects.filter(team=team).first()
    if (
        known
        and known.host
        and known.host != settings.HANDRAIL_HOST_NAME
        and Runner.objects.alive().filter(host=known.host).exists()
    ):
        raise StoreError(f"The store of {team.slug} is on {known.host}, which is running. Nothing was changed")
    try:
        store = Store.open(team_stores.blobs_of(team.pk))
    except StoreError:
        if team_stores.is_there(team.pk):
            raise
        store = _created(team.pk)
    rows = Snapshot.objects.filter(workspace__team=team)
    lost = [pk for pk, tree in rows.values_list("pk", "tree") if not store.catalog.holds(bytes(tree))]
    with Team.objects.turn(team.pk):
        here = {"store_id": store.id, "host": _host()}
        StoreIdentity.objects.update_or_create(team=team, defaults=here)
        for column in ("head", "baseline"):
            Workspace.objects.filter(team=team, **{f"{column}__in": lost}).update(**{column: None})
        data = {"store": store.id, "lost_snapshots": len(lost)}
        Event.objects.record(team, actor=by, verb="store.accepted", subject=team, data=data)
    return store, len(lost)


def usable(team_id) -> Store | None:
    """Open the team's store for optional figures; None if it cannot be opened."""
    with suppress(StoreError, Problem):
        return opened(team_id)
    return None
