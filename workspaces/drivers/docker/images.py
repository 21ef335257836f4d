"""Images on a Docker engine: those named by environments or pulled, those we build, and the layers of setups."""

import contextlib
import tarfile
import time
from collections.abc import Mapping, Set
from dataclasses import replace

from docker import APIClient
from docker.errors import APIError, NotFound

from workspaces.drivers.registries import registry_of

from ..base import Build, DriverError, ImageMissing, InspectFile, Layer
from . import dockerfile
from .engine import INSTALLATION, RUN, WORKSPACE, Engine

LAYER, TOUCHES = "handrail.layer", "handrail.touches-workspace"  # labels
LAYERS, BUILDS = "handrail/setup", "handrail/build"  # repositories of the images we make
BUILD_S = 3600.0
RESOLVE_S = 60.0
NOT_THERE = (
    "There is no image {0!r} on this Docker engine, and Handrail pulls none automatically. `docker pull` or `docker "
    "load` it there, or let a lead pull it by its digest on the environment's page{1}."
)
OURS = "handrail/base:"
MADE_HERE = "; `make images` makes it"


def _not_there(reference: str) -> ImageMissing:
    return ImageMissing(NOT_THERE.format(reference, MADE_HERE if reference.startswith(OURS) else ""))


BY_DIGEST = "@sha256:"
NOT_FROM_THERE = (
    "There is no image {0!r} on this Docker engine, and it was not pulled: HANDRAIL_PULL_FROM names {1}, not its "
    "registry {2}."
)


class Images:
    """Find, pull, build, commit and remove images of an engine. `pull_from`: the registries that may be asked."""

    def __init__(self, engine: Engine, pull_from: tuple[str, ...] = ()):
        self.engine = engine
        self.pull_from = pull_from

    def find(self, reference: str | None) -> dict:
        """Return the engine's description of the image; raise ImageMissing if it is not there."""
        if not reference:
            raise DriverError("This environment names no image.")
        with self.engine.talk() as client:
            return _inspect(client, reference)

    def resolve(self, reference: str) -> str:
        """Ask the image's registry for the digest of its tag; return the reference with it. Raise DriverError."""
        if BY_DIGEST in reference:
            return reference
        registry = registry_of(reference)
        with self.engine.talk(RESOLVE_S) as client:
            try:
                digest = client.inspect_distribution(reference)["Descriptor"]["digest"]
            except APIError as error:
                raise DriverError(
                    f"{registry} gave no digest for {reference!r}: {error.explanation or error}"
                ) from error
        return f"{reference}@{digest}"

    def pull(self, reference: str, *, asked: bool = False) -> str:
        """Pull an image by its digest, which the engine compares with what it got; return its id.

        Raise ImageMissing for an image without a digest, or of a registry that may not be asked. `asked`: a lead asked
        for this image.
        """
        if BY_DIGEST not in reference:
            raise _not_there(reference)
        registry = registry_of(reference)
        if not asked and registry not in self.pull_from:
            raise ImageMissing(NOT_FROM_THERE.format(reference, ", ".join(self.pull_from) or "none", registry))
        with self.engine.talk(BUILD_S) as client:
            try:
                steps = list(client.pull(reference, stream=True, decode=True))  # to the end, to free the connection
            except APIError as error:
                steps = [{"error": error.explanation or str(error)}]
            if wrong := next((step["error"] for step in steps if step.get("error")), ""):
                raise DriverError(f"The image {reference!r} could not be pulled from {registry}: {wrong}")
            return _inspect(client, reference)["Id"]

    def build(self, build: Build, name: str) -> str:
        """Build an image without network or pulls; return its id."""
        bases = dockerfile.bases(build)
        tag = f"{BUILDS}:{self.engine.tag_of(name)}"
        with self.engine.talk(BUILD_S) as client:
            for base in bases:
                _inspect(client, base)
            said, wrong = [], None
            # No network: a build may use only its context.
            steps = client.build(
                path=str(build.context),
                dockerfile=build.dockerfile,
                buildargs=dict(build.args),
                target=build.target or None,
                tag=tag,
                rm=True,
                forcerm=True,
                pull=False,
                network_mode="none",
                labels={INSTALLATION: self.engine.installation},
                decode=True,
                use_config_proxy=False,
            )
            for step in steps:  # read to the end, even after an error: unread output blocks the connection
                said.append(step.get("stream", ""))
                wrong = wrong or step.get("error")
            if wrong:
                raise DriverError(f"The image could not be built: {wrong}\n{''.join(said)[-1500:]}")
            return client.inspect_image(tag)["Id"]

    def find_layer(self, name: str) -> Layer | None:
        """Return the layer of this name made by this installation, or None."""
        with self.engine.talk() as client:
            try:
                found = client.inspect_image(f"{LAYERS}:{self.engine.tag_of(name)}")
            except NotFound:
                return None
        labels = found["Config"].get("Labels") or {}
        if (labels.get(INSTALLATION), labels.get(LAYER)) != (self.engine.installation, name):
            return None
        return Layer(name, found["Id"], labels.get(TOUCHES) != "no")

    def keep_layer(self, run_id: str, layer: Layer, inspect: InspectFile | None) -> Layer:
        """Commit the stopped container of a setup Run as a layer; call `inspect` for each file it changed."""
        with self.engine.talk(BUILD_S) as client:
            found = self.engine.find(client, run_id)
            if found is None:
                raise DriverError("Setup's container is gone, with everything it installed.")
            if inspect is not None:
                _show_changes(client, found["Id"], inspect)
            base = client.inspect_image(found["Image"])["Config"]
            labels = (base.get("Labels") or {}) | {
                INSTALLATION: self.engine.installation,
                LAYER: layer.name,
                TOUCHES: "yes" if layer.touched_workspace else "no",
                RUN: "",
                WORKSPACE: "",
            }
            # Restore the image's configuration: the container's holds the command and environment of our init.
            conf = {key: base.get(key) for key in ("Env", "Cmd", "Entrypoint", "WorkingDir", "User")}
            if not any(entry.startswith("LC_ALL") for entry in conf["Env"] or ()):
                conf["Env"] = [*(conf["Env"] or ()), "LC_ALL"]  # a name without a value unsets the init's LC_ALL=C
            made = client.commit(found["Id"], LAYERS, self.engine.tag_of(layer.name), conf=conf | {"Labels": labels})
        return replace(layer, digest=made["Id"])

    def collect(self, in_use: Set[str], older_than_s: float, ages: Mapping[str, float]) -> list[str]:
        """Remove old layers and built images that are not `in_use`; return their tags. The engine refuses used ones."""
        removed = []
        with self.engine.talk() as client:
            for found in client.images(filters={"label": f"{INSTALLATION}={self.engine.installation}"}):
                tags = [tag for tag in found["RepoTags"] or () if tag != "<none>:<none>"]
                ours = all(tag.startswith((f"{LAYERS}:", f"{BUILDS}:")) for tag in tags)
                names = {found["Id"], (found["Labels"] or {}).get(LAYER)}
                oldest = max((ages[name] for name in names & ages.keys()), default=older_than_s)
                if names & in_use or not ours or found["Created"] > time.time() - oldest:
                    continue
                with contextlib.suppress(APIError):  # a container or another image uses it
                    client.remove_image(found["Id"])
                    removed += tags or [found["Id"]]
        return removed


def _inspect(client: APIClient, reference: str) -> dict:
    try:
        return client.inspect_image(reference)
    except NotFound as error:
        raise _not_there(reference) from error


def _show_changes(client: APIClient, container: str, inspect: InspectFile) -> None:
    """Call `inspect` for every file that the container added or changed."""
    changed = {entry["Path"].lstrip("/") for entry in client.diff(container) or () if entry["Kind"] in (0, 1)}
    with _Stream(client.export(container)) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            if member.isfile() and member.name.lstrip("./") in changed:
                inspect("/" + member.name.lstrip("./"), archive.extractfile(member))


class _Stream:
    """A readable file object over an iterator of chunks."""

    def __init__(self, chunks):
        self.chunks = chunks
        self.rest = b""

    def __enter__(self) -> "_Stream":
        return self

    def __exit__(self, *_) -> None:
        for _ in self.chunks:  # read to the end, to free the connection
            pass

    def read(self, size: int) -> bytes:
        while len(self.rest) < size and (chunk := next(self.chunks, b"")):
            self.rest += chunk
        found, self.rest = self.rest[:size], self.rest[size:]
        return found
