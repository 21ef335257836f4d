"""What the root of a workspace is made of, where a driver needs that: an image, and the layer of the set-up on top.

`Workspace.base` remembers it: {image, digest, layer, layer_digest, stands_for}; the last is what the image's name stood
for at the last start. A layer is known by a hash of all that it was made from, so the next workspace of the same
environment finds it.
"""

import hashlib
import shutil
import stat
from contextlib import asynccontextmanager, closing
from dataclasses import replace

from dashboard.strict_json import canonical
from workspaces import images, places
from workspaces.drivers.base import DriverError, ImageMissing, Layer
from workspaces.models import Workspace
from workspaces.runner import leaks, snapshots
from workspaces.store import LocalTree, StoreError

# What says which versions of its packages a repository wants; read from its top folder.
LOCK_FILES = (
    "Cargo.lock",
    "Gemfile.lock",
    "Pipfile.lock",
    "bun.lock",
    "composer.lock",
    "constraints.txt",
    "go.sum",
    "gradle.lockfile",
    "mix.lock",
    "package-lock.json",
    "pdm.lock",
    "pnpm-lock.yaml",
    "poetry.lock",
    "requirements.txt",
    "uv.lock",
    "yarn.lock",
)
PIECE = 1 << 20


async def choose(job, *, again: bool = False) -> None:
    """Find the image of the environment, or build it from its folder, and remember it for good.

    `again`: the environment is another one now, so what was remembered is no longer true.
    """
    if job.driver.capabilities.images and (again or not job.workspace.base):
        reference = job.workspace.environment.image or job.driver.default_image or images.DEFAULT
        digest = await _find(job, reference)
        await remember(job, {"image": reference, "digest": digest})


async def _find(job, reference: str) -> str:
    context = await job.thread(images.context_of, reference)
    if context is None:
        return await job.driver.find_image(reference)
    await job.progress(step="image")
    environment = job.workspace.environment
    name = hashlib.sha256(canonical([str(environment.team_id), environment.name, environment.version])).hexdigest()[:40]
    return await job.driver.build_image(context, name)


async def remember(job, base: dict) -> None:
    job.workspace.base = base
    await job.thread(Workspace.objects.filter(pk=job.workspace.pk).update, base=base)


class SetUp:
    """What the set-up of one workspace comes to: which script runs on which image, and what is kept of its root."""

    def __init__(self, job, layer: Layer | None):
        environment = job.workspace.environment
        self.job = job
        self.layer = layer  # None: this driver has none
        self.known = layer is not None and bool(layer.digest)
        self.script = environment.setup
        if self.known:
            # What lies outside /workspace is in the layer; left to do is what the script does inside, in each one.
            self.script = (environment.maintenance or environment.setup) if layer.touched_workspace else ""
        self.before = ""

    async def begin(self) -> None:
        if self.layer is None:
            return
        if self.known:
            await remember(self.job, self.job.workspace.base | _named(self.layer))
        elif not self.job.driver.capabilities.guest_files:
            self.before = await _scanned(self.job)

    async def look(self, owner) -> None:
        """Before the script runs: the files of a guest are asked of the one that is up anyway."""
        if self.layer is not None and not self.known and self.job.driver.capabilities.guest_files:
            self.before = await _scanned(self.job, owner)

    async def keep(self, owner) -> None:
        """After the script went through and its Run was stopped, or made quiet where that is how files are reached."""
        if self.layer is None or self.known:
            return
        made = replace(self.layer, touched_workspace=await _scanned(self.job, owner) != self.before)
        kept = await _keep(self.job, owner, made)
        await remember(self.job, self.job.workspace.base | _named(kept))


async def _scanned(job, owner=None) -> str:
    """The files as they are now; those of a guest in the Run of its set-up."""
    if owner is not None and job.driver.capabilities.guest_files:
        tree = job.driver.tree(owner, cache=snapshots.cache_of(job.workspace))
        return (await job.thread(snapshots.scan, job.workspace, tree)).tree
    async with job.live() as tree:
        return (await job.thread(snapshots.scan, job.workspace, tree)).tree


async def _keep(job, owner, layer: Layer) -> Layer:
    try:
        look = await job.thread(leaks.look_of, job.workspace)
    except StoreError as error:
        raise DriverError(f"What the set-up installed is not kept: {error}") from error
    return await job.driver.keep_layer(owner, layer, look=look)


def _named(layer: Layer) -> dict:
    return {"layer": layer.name, "layer_digest": layer.digest}


@asynccontextmanager
async def set_up(job):
    """The SetUp of this workspace; others that would make the same layer wait, and then find it."""
    if not job.driver.capabilities.images:
        yield SetUp(job, None)
        return
    name = await job.thread(_layer_name, job.workspace, await _files_at_rest(job))
    async with job.daemon.tree_lock(("layer", name)):
        yield SetUp(job, await job.driver.find_layer(name) or Layer(name))


async def _files_at_rest(job):
    """The files before the set-up, without a start: a guest's are in a folder until the first, then in a snapshot."""
    if job.driver.capabilities.guest_files and job.workspace.head is not None:
        return await job.seen()
    return snapshots.host_tree(job.workspace)


def _layer_name(workspace, tree) -> str:
    environment = workspace.environment
    with tree.files() as files:
        locks = {name: _digest(files, name.encode()) for name in LOCK_FILES}
    made_of = {
        "team": str(environment.team_id),
        "environment": [environment.name, environment.version],
        "image": workspace.base["digest"],
        "setup": environment.setup,
        "locks": {name: digest for name, digest in locks.items() if digest},
    }
    return hashlib.sha256(canonical(made_of)).hexdigest()[:40]


def _digest(files, path: bytes) -> str:
    try:
        if not stat.S_ISREG(files.stat(path).st_mode):
            return ""
        with closing(files.open(path)) as file:
            hashed, at = hashlib.sha256(), 0
            while piece := file.pread(PIECE, at):
                hashed.update(piece)
                at += len(piece)
            return hashed.hexdigest()
    except OSError:
        return ""


async def ensure(job, run_set_up) -> str:
    """Before each start: the root that it was made with is here. Words when it had to be made again, else "".

    `run_set_up` is the one of kinds/starts.py: it may have to run once more, for the layer alone.
    """
    if not job.driver.capabilities.images:
        return ""
    await choose(job)
    await _look_at_the_name(job)
    base = job.workspace.base
    if await _is_here(job, base.get("layer_digest") or base["digest"]):
        return ""
    said = []
    if not await _is_here(job, base["digest"]):
        digest = await _find(job, base["image"])
        said.append(f"The image {base['image']} is another one now: {digest[:19]} instead of {base['digest'][:19]}.")
        base = base | {"digest": digest}
    if base.get("layer"):
        known = await job.driver.find_layer(base["layer"])
        if known is not None:
            base = base | _named(known)
        else:
            # Only for us, and not in the row: should it fail, the next start must not do without the layer.
            job.workspace.base = {name: base[name] for name in ("image", "digest")}
            base = base | _named(await _make_layer_again(job, base["layer"], run_set_up))
            said.append("What the set-up had installed outside /workspace was gone; it ran again for that.")
    await remember(job, base)
    return " ".join(said)


def in_use() -> set[str]:
    """Layers (by name) and images (by digest) that a workspace is made from; one in the trash may come back."""
    bases = Workspace.objects.filter(purged_at=None).values_list("base", flat=True)
    return {base[name] for base in bases for name in ("layer", "layer_digest", "digest") if base.get(name)}


async def _look_at_the_name(job) -> None:
    """Which image its name stands for now, so that a page can say when that is another one. It keeps its own."""
    base = job.workspace.base
    if base["image"].startswith("/"):
        return  # a folder: nobody knows before it is built
    try:
        found = await job.driver.find_image(base["image"])
    except ImageMissing:
        return
    if found != base.get("stands_for", base["digest"]):
        await remember(job, base | {"stands_for": found})


async def _is_here(job, digest: str) -> bool:
    try:
        await job.driver.find_image(digest)
    except ImageMissing:
        return False
    return True


async def _make_layer_again(job, name: str, run_set_up) -> Layer:
    """In a copy of the files as they were after the first set-up: /workspace itself is left alone."""
    workspace = job.workspace
    scratch = places.folder_of(workspace.pk) / "setup-tree"
    await job.thread(shutil.rmtree, scratch, ignore_errors=True)
    await job.thread(scratch.mkdir, mode=0o755)
    try:
        if workspace.baseline is not None:
            store = snapshots.store_of(workspace)
            journal = scratch.with_name("setup-journal")
            await job.thread(store.restore, workspace.baseline.tree_hex, LocalTree(scratch), journal=journal)
        kept = []

        async def keep(owner):
            kept.append(await _keep(job, owner, Layer(name)))

        await run_set_up(job, workspace.environment.setup, keep=keep, tree=scratch)
        return kept[0]
    finally:
        await job.thread(shutil.rmtree, scratch, ignore_errors=True)
