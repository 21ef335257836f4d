"""The files of snapshots and rehearsals: each content of the store is read once, however many trees have it."""

from collections.abc import Callable, Iterator

from dashboard.database import clock
from dashboard.database.batches import in_batches
from workspaces.changes import stores
from workspaces.models import Artifact, HomeLayer, Operation, Rehearsal, Snapshot, State, Workspace
from workspaces.services import source_trees
from workspaces.services.retention.holds import Held
from workspaces.services.scrub.places import ARTIFACT, HOME, REHEARSAL, SNAPSHOT, Place
from workspaces.services.scrub.value import INFLATED_BYTES, Wanted
from workspaces.store import Store, StoreError
from workspaces.store.content import stream_entry
from workspaces.store.objects import FILE, FOLDER

MAX_PATHS = 10  # that a place names


class Trees:
    """Find the value in trees of one store: in names, contents, link targets and extended attributes."""

    def __init__(self, store: Store, wanted: Wanted, tick: Callable[[], None]):
        self._store, self._wanted, self._tick = store, wanted, tick
        self._folders: dict[bytes, tuple[list[bytes], list[tuple[bytes, bytes]], int]] = {}
        self._contents: dict[bytes, bool] = {}
        self.unread = 0  # contents that could not be read

    def count(self, tree: bytes) -> int:
        """Return the number of entries with the value in a tree."""
        try:
            return self._folder(bytes(tree))[2]
        except StoreError:
            self.unread += 1
            return 0

    def paths(self, tree: bytes) -> list[str]:
        """Return the first paths with the value, without it."""
        found: list[str] = []
        for path in self._walk(bytes(tree), b""):
            found.append(self._wanted.out_of(path.decode("utf-8", "backslashreplace")))
            if len(found) == MAX_PATHS:
                break
        return found

    def without(self, text: str) -> str:
        return self._wanted.out_of(text)

    def contents(self) -> set[bytes]:
        """Return the ids of the contents that hold the value."""
        return {content for content, found in self._contents.items() if found}

    def _folder(self, content: bytes) -> tuple[list[bytes], list[tuple[bytes, bytes]], int]:
        """Return (names with the value, (name, content) of folders with some below, their number) of a folder."""
        if content in self._folders:
            return self._folders[content]
        self._tick()
        own, below, count = [], [], 0
        for entry in self._store.catalog.folder(content):
            if self._wanted.is_in(entry.name + b"\0" + b"\0".join(entry.extras.values())) or self._is_in_file(entry):
                own.append(entry.name)
            if entry.kind == FOLDER and entry.kept and (more := self._folder(entry.content)[2]):
                below.append((entry.name, entry.content))
                count += more
        self._folders[content] = (own, below, count + len(own))
        return self._folders[content]

    def _is_in_file(self, entry) -> bool:
        if entry.kind != FILE or not entry.kept:
            return False
        if entry.content not in self._contents:
            self._tick()
            self._contents[entry.content] = self._is_in(entry)
        return self._contents[entry.content]

    def _is_in(self, entry) -> bool:
        before = b""
        try:
            for piece in stream_entry(self._store.catalog, entry):
                if entry.size <= INFLATED_BYTES and not before and self._wanted.is_in_file(piece):
                    return True
                if self._wanted.is_in(before + piece):
                    return True
                before = (before + piece)[-self._wanted.longest :]
        except StoreError:
            self.unread += 1
        return False

    def _walk(self, content: bytes, path: bytes) -> Iterator[bytes]:
        own, below, _ = self._folder(content)
        for name in own:
            yield path + b"/" + name if path else name
        for name, inner in below:
            yield from self._walk(inner, path + b"/" + name if path else name)


def trees_of(team, wanted: Wanted, tick) -> Trees | None:
    """Return the Trees of the team's store; None without a store. Raise StoreError if it can't be opened."""
    try:
        return Trees(stores.opened(team.pk), wanted, tick)
    except stores.NoStore:
        return None


def rows(team):
    """Return the team's snapshots, also those in the trash, the newest first."""
    found = Snapshot.objects.filter(workspace__team=team).select_related("workspace__team")
    return found.order_by("workspace__key", "-number")


def find(team, trees: Trees) -> Iterator[Place]:
    """Yield the snapshots, tries, artifacts and kept homes with the value in their files."""
    kept = Kept(team)
    for snapshot in in_batches(rows(team)):
        if count := trees.count(snapshot.tree):
            yield place_of(snapshot, trees, count, kept.why(snapshot, past_holds=True))
    for tree, workspace in source_trees.of_team(team).items():
        if trees.count(bytes.fromhex(tree)):
            yield place_of_source(workspace, trees, tree)
    yield from others(team, trees)


def others(team, trees: Trees) -> Iterator[Place]:
    """Yield the tries, artifacts and kept homes with the value in their files; a purge leaves them."""
    for rehearsal in Rehearsal.objects.filter(workspace__team=team).keeping_trees().select_related("workspace"):
        if count := trees.count(rehearsal.tree) or trees.count(rehearsal.base):
            yield Place(
                REHEARSAL,
                "files of a try",
                f"try of {rehearsal.created_at:%Y-%m-%d %H:%M}",
                pk=str(rehearsal.pk),
                workspace=rehearsal.workspace.key,
                count=count,
                why_kept="it goes when its action is over: decide or cancel that",
            )
    for artifact in Artifact.objects.kept().filter(team=team):
        if count := trees.count(artifact.tree):
            name, key = trees.without(artifact.name), artifact.key
            why = "people keep its files: delete the artifact on its page, and purge again"
            yield Place(ARTIFACT, "artifact", name, str(artifact.pk), key, count=count, why_kept=why)
    for layer in HomeLayer.objects.filter(team=team):
        if count := trees.count(layer.tree):
            why = "environments keep what was installed: their versions and new workspaces have it"
            yield Place(
                HOME, "files kept in an environment", layer.key, str(layer.pk), layer.key, count=count, why_kept=why
            )


def place_of_source(workspace: Workspace, trees: Trees, tree: str) -> Place:
    """Return the place of a source as it came; a purge forgets it: what differs in a revision is a conflict then."""
    count, paths = trees.count(bytes.fromhex(tree)), tuple(trees.paths(bytes.fromhex(tree)))
    name = f"source of {workspace.key} as it came"
    return Place(REHEARSAL, "files of a source", name, workspace=workspace.key, paths=paths, count=count)


def place_of(snapshot: Snapshot, trees: Trees, count: int, why_kept: str) -> Place:
    return Place(
        SNAPSHOT,
        "snapshot",
        f"snapshot {snapshot.number}" + (" (in the trash)" if snapshot.trashed_at else ""),
        pk=str(snapshot.pk),
        workspace=snapshot.workspace.key,
        paths=tuple(trees.paths(snapshot.tree)),
        count=count,
        why_kept=why_kept,
    )


class Kept:
    """Why snapshots of a team can't be deleted now."""

    def __init__(self, team):
        self._held = Held(team, clock.now())
        workspaces = Workspace.objects.filter(team=team)
        self._heads = set(workspaces.exclude(head=None).values_list("head", flat=True))
        self._busy = set(Operation.objects.open().filter(workspace__team=team).values_list("workspace", flat=True))
        making = workspaces.filter(state__in=[State.CREATING, State.SETTING_UP, State.FAILED])
        sources = making.values_list("source", flat=True)
        self._forked = {str(source["fork"].get("id")) for source in sources if "fork" in source}

    def why(self, snapshot: Snapshot, *, past_holds: bool) -> str:
        """Return why the snapshot stays; "" if it may go. With `past_holds` no hold keeps it."""
        if snapshot.pk in self._heads:
            return "it is the current snapshot: take the value out of the files and take a snapshot first"
        if snapshot.workspace_id in self._busy:
            return "an operation on its workspace is in progress"
        if str(snapshot.pk) in self._forked:
            return "a workspace is being made from it"
        hold = self.hold_on(snapshot)
        return f"it is on hold: {hold.reason}" if hold and not past_holds else ""

    def hold_on(self, snapshot: Snapshot):
        held = self._held
        return held.of_team or held.workspaces.get(snapshot.workspace_id) or held.snapshots.get(snapshot.pk)
