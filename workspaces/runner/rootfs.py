"""Choose and restore a workspace's root file system, for drivers with images: an image and the setup layer on top.

`Workspace.base` holds {image, digest, layer, layer_digest, stands_for}; the last is the digest that the image's name
resolved to at the last start. A layer's name is a hash of everything it was made from, so that the next workspace of
the same environment reuses it.
"""

import hashlib
import shutil
import stat
from contextlib import asynccontextmanager, closing
from dataclasses import replace

from dashboard.problems import Problem
from dashboard.text.strict_json import canonical
from workspaces.drivers.base import Build, DriverError, ImageMissing, Layer
from workspaces.host import paths
from workspaces.models import Snapshot, Workspace
from workspaces.provisioning import eligibility, images
from workspaces.provisioning.git.running import CloneFailed
from workspaces.runner import secret_scan, snapshots, source_files
from workspaces.store import LocalTree, StoreError

# Lock files in a repository's top folder; they pin package versions, so they are part of a layer's hash.
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
MISSING = "The files setup installed outside /workspace were missing"
WAYS_OUT = (
    "No file of the workspace was changed. Resume tries again; a lead can correct the setup script and rebuild it with "
    "the next version of the environment; its files can be downloaded, and a fork can start under another environment."
)


async def choose(job, *, again: bool = False) -> None:
    """Find the environment's image, or build it from its folder, and save it in `Workspace.base`.

    `again`: replace the saved image, because the environment has changed.
    """
    if job.driver.capabilities.images and (again or not job.workspace.base):
        reference = job.workspace.environment.image or job.driver.default_image or images.DEFAULT
        digest = await _find(job, reference)
        await remember(job, {"image": reference, "digest": digest})


async def _find(job, reference: str) -> str:
    environment = job.workspace.environment
    named = {"dockerfile": images.DOCKERFILE} | environment.build
    context = await job.thread(images.context_of, reference, named["dockerfile"])
    if context is None:
        return await _find_or_pull(job, reference)
    await job.progress(step="image")
    name = hashlib.sha256(canonical([str(environment.team_id), environment.name, environment.version])).hexdigest()[:40]
    return await job.driver.build_image(Build(context, **named), name)


async def _find_or_pull(job, reference: str) -> str:
    """Return the digest of an image; one that is named by its digest is pulled if it is not here and may be."""
    try:
        return await job.driver.find_image(reference)
    except ImageMissing:
        if images.PINNED not in reference:
            raise
    await job.progress(step="pull")
    return await job.driver.pull_image(reference)


async def remember(job, base: dict) -> None:
    job.workspace.base = base
    await job.thread(Workspace.objects.filter(pk=job.workspace.pk).update, base=base)


class SetUp:
    """The setup of one workspace: which script to run, and which layer of its root to keep."""

    def __init__(self, job, layer: Layer | None):
        environment = job.workspace.environment
        self.job = job
        self.layer = layer  # None: the driver has no layers
        self.known = layer is not None and bool(layer.digest)
        self.script = environment.setup
        if self.known:
            # The layer holds what lies outside /workspace. A script that also changes /workspace runs in each one.
            self.script = (environment.maintenance or environment.setup) if layer.touched_workspace else ""
        self.before = ""

    async def begin(self) -> None:
        """Before the Run starts, save an existing layer in `base`."""
        if self.known:
            await remember(self.job, self.job.workspace.base | _named(self.layer))

    async def scan_before(self, owner) -> None:
        """Scan the files before the script runs, in the Run that is up for setup."""
        if self.layer is not None and not self.known:
            self.before = await _scanned(self.job, owner)

    async def keep(self, owner) -> None:
        """Keep the layer, after the script succeeded and the programs of its Run were ended."""
        if self.layer is None or self.known:
            return
        made = replace(self.layer, touched_workspace=await _scanned(self.job, owner) != self.before)
        kept = await _keep(self.job, owner, made)
        await remember(self.job, self.job.workspace.base | _named(kept))


async def _scanned(job, owner) -> str:
    """Return the store tree id of the files of a Run."""
    tree = job.driver.tree(owner, cache=snapshots.cache_of(job.workspace))
    return (await job.thread(snapshots.scan, job.workspace, tree)).tree


async def _keep(job, owner, layer: Layer) -> Layer:
    try:
        inspect = await job.thread(secret_scan.file_inspector, job.workspace)
    except StoreError as error:
        raise DriverError(f"Setup's installed files were not saved: {error}") from error
    return await job.driver.keep_layer(owner, layer, inspect=inspect)


def _named(layer: Layer) -> dict:
    return {"layer": layer.name, "layer_digest": layer.digest}


@asynccontextmanager
async def set_up(job):
    """Yield the SetUp of this workspace. Others that need the same layer wait for the lock, then find the layer."""
    if not job.driver.capabilities.images:
        yield SetUp(job, None)
        return
    name = await job.thread(_layer_name, job.workspace, await _files_at_rest(job))
    async with job.daemon.tree_lock(("layer", name)):
        yield SetUp(job, await job.driver.find_layer(name) or Layer(name))


async def _files_at_rest(job):
    """Return the tree before setup, without a start. Until the first snapshot it is a folder of this host."""
    return snapshots.host_tree(job.workspace) if job.workspace.head is None else await job.readable_tree()


def _layer_name(workspace, tree) -> str:
    environment = workspace.environment
    with tree.files() as files:
        locks = {name: _digest(files, name.encode()) for name in LOCK_FILES}
    made_of = {
        "team": str(environment.team_id),
        "environment": [environment.name, environment.version],
        "image": workspace.base["digest"],
        "setup": environment.setup,
        "variables": environment.variables,
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
    """Before each start, make sure the workspace's image and layer exist. Return a note if one was remade, else "".

    `run_set_up` is the function of operations/create.py; it runs again if the layer is missing.
    """
    if not job.driver.capabilities.images:
        return ""
    await choose(job)
    await _record_resolved_image(job)
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
            # Not saved in the row: if this fails, the next start must not run without the layer.
            job.workspace.base = {name: base[name] for name in ("image", "digest")}
            made, ground = await _make_layer_again(job, base["layer"], run_set_up)
            base = base | _named(made)
            said.append(f"{MISSING}, so setup ran again on {ground}.")
    await remember(job, base)
    return " ".join(said)


def in_use() -> set[str]:
    """Return layer names and image and layer digests that workspaces use, including those in the trash."""
    bases = Workspace.objects.filter(purged_at=None).values_list("base", flat=True)
    return {base[name] for base in bases for name in ("layer", "layer_digest", "digest") if base.get(name)}


async def _record_resolved_image(job) -> None:
    """Save what the image's name resolves to now, so that a page can show a change. The workspace keeps its image."""
    base = job.workspace.base
    if base["image"].startswith("/"):
        return  # a build folder, whose digest is unknown until it is built
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


def _origin(workspace) -> Workspace:
    """Return the workspace whose setup made the layer: of a fork its origin, since its own has an agent's changes.

    A fork under another environment had that one's setup, so it has one of its own. Raise DriverError if the origin's
    is gone and setup may not run again (it has secrets).
    """
    origin = workspace
    while (fork := origin.source.get("fork")) and "was" not in fork:
        found = Snapshot.objects.select_related("workspace__baseline").filter(pk=fork["id"]).first()
        if found is None:
            if words := eligibility.why_no_set_up(workspace.environment):
                raise DriverError(f"Setup's installed files are missing. {words}")
            break
        origin = found.workspace
    return origin


async def _make_layer_again(job, name: str, run_set_up) -> tuple[Layer, str]:
    """Run setup again for the layer, in a copy of the files that it first had; /workspace is not touched.

    Return the layer and on which files it ran, in words. Raise DriverError that says so if it fails.
    """
    workspace = job.workspace
    scratch = paths.folder_of(workspace.pk) / "setup-tree"
    await job.thread(_empty, scratch)
    try:
        ground = await job.thread(_put_before_set_up, workspace, scratch)
        kept = []

        async def keep(owner):
            kept.append(await _keep(job, owner, Layer(name)))

        try:
            await run_set_up(job, workspace.environment.setup, keep=keep, tree=scratch)
        except DriverError as error:
            raise DriverError(f"{MISSING}, so setup ran again on {ground}. {WAYS_OUT}\n{error}") from error
        return kept[0], ground
    finally:
        await job.thread(shutil.rmtree, scratch, ignore_errors=True)


def _empty(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o755)


def _put_before_set_up(workspace, folder) -> str:
    """Fill the folder with the files that setup first had; return which these are, in words."""
    origin = _origin(workspace)
    if "fork" not in origin.source:
        try:
            source_files.fill(origin, folder, {}, again=True)
            return "the source's own files" if origin.source else "an empty folder, as at first"
        except (Problem, CloneFailed, StoreError, OSError) as error:
            why = error.detail if isinstance(error, Problem) else str(error)
            _empty(folder)
            ground = f"the files after the first setup, because the source is out of reach ({why[:200]})"
        first = origin.baseline
    else:  # under another environment: see operations/create.py:_give_files_to_set_up
        first = Snapshot.objects.filter(workspace=origin, kind="fork").order_by("number").first()
        ground = "the files that it was forked with"
        if first is None:
            first, ground = origin.baseline, "the files after the first setup"
    if first is not None:
        journal = folder.with_name("setup-journal")
        snapshots.store_of(workspace).restore(first.tree_hex, LocalTree(folder), journal=journal)
    return ground
