"""Images on a Docker engine: those that environments name, those that are built, and the layers that set-ups leave."""

import contextlib
import tarfile
import time
from collections.abc import Set
from dataclasses import replace
from pathlib import Path

from docker import APIClient
from docker.errors import APIError, NotFound

from ..base import DriverError, ImageMissing, Layer, Look
from . import dockerfile
from .engine import INSTALLATION, RUN, WORKSPACE, Engine

LAYER, TOUCHES = "handrail.layer", "handrail.touches-workspace"  # labels
LAYERS, BUILDS = "handrail/setup", "handrail/build"  # names of images that we make
BUILD_S = 3600.0
NOT_THERE = (
    "There is no image {0!r} on this Docker engine, and Handrail fetches none by itself. `docker pull` or `docker "
    "load` it there; `make images` makes handrail/base:bookworm."
)


class Images:
    def __init__(self, engine: Engine):
        self.engine = engine

    def find(self, reference: str | None) -> dict:
        """The image, as the engine describes it; ImageMissing when it is not there."""
        if not reference:
            raise DriverError("This environment names no image.")
        with self.engine.talk() as client:
            return _inspect(client, reference)

    def build(self, context: Path, name: str) -> str:
        bases = dockerfile.bases(context)
        tag = f"{BUILDS}:{name}"
        with self.engine.talk(BUILD_S) as client:
            for base in bases:
                _inspect(client, base)
            said, wrong = [], None
            # No network: what a build needs lies in its folder.
            steps = client.build(
                path=str(context),
                tag=tag,
                rm=True,
                forcerm=True,
                pull=False,
                network_mode="none",
                labels={INSTALLATION: self.engine.installation},
                decode=True,
                use_config_proxy=False,
            )
            for step in steps:  # to the end, also after an error: what is not read keeps its connection
                said.append(step.get("stream", ""))
                wrong = wrong or step.get("error")
            if wrong:
                raise DriverError(f"The image could not be built: {wrong}\n{''.join(said)[-1500:]}")
            return client.inspect_image(tag)["Id"]

    def find_layer(self, name: str) -> Layer | None:
        with self.engine.talk() as client:
            try:
                found = client.inspect_image(f"{LAYERS}:{name}")
            except NotFound:
                return None
        labels = found["Config"].get("Labels") or {}
        if (labels.get(INSTALLATION), labels.get(LAYER)) != (self.engine.installation, name):
            return None
        return Layer(name, found["Id"], labels.get(TOUCHES) != "no")

    def keep_layer(self, run_id: str, layer: Layer, look: Look | None) -> Layer:
        """What the set-up in this Run's container, which has ended, has installed."""
        with self.engine.talk(BUILD_S) as client:
            found = self.engine.find(client, run_id)
            if found is None:
                raise DriverError("The container of the set-up is gone, and what it installed with it.")
            if look is not None:
                _show_changes(client, found["Id"], look)
            base = client.inspect_image(found["Image"])["Config"]
            labels = (base.get("Labels") or {}) | {
                INSTALLATION: self.engine.installation,
                LAYER: layer.name,
                TOUCHES: "yes" if layer.touched_workspace else "no",
                RUN: "",
                WORKSPACE: "",
            }
            # The image's own settings again: those of the container are how our init was started in it.
            conf = {key: base.get(key) for key in ("Env", "Cmd", "Entrypoint", "WorkingDir", "User")}
            if not any(entry.startswith("LC_ALL") for entry in conf["Env"] or ()):
                conf["Env"] = [*(conf["Env"] or ()), "LC_ALL"]  # a name alone: not that of the init
            made = client.commit(found["Id"], LAYERS, layer.name, conf=conf | {"Labels": labels})
        return replace(layer, digest=made["Id"])

    def collect(self, in_use: Set[str], older_than_s: float) -> list[str]:
        """Remove what set-ups and builds left, once it is old and nobody names it; one that is in use stays."""
        removed = []
        with self.engine.talk() as client:
            for found in client.images(filters={"label": f"{INSTALLATION}={self.engine.installation}"}):
                tags = [tag for tag in found["RepoTags"] or () if tag != "<none>:<none>"]
                ours = all(tag.startswith((f"{LAYERS}:", f"{BUILDS}:")) for tag in tags)
                named = {found["Id"], (found["Labels"] or {}).get(LAYER)} & in_use
                if named or not ours or found["Created"] > time.time() - older_than_s:
                    continue
                with contextlib.suppress(APIError):  # a container or another image needs it
                    client.remove_image(found["Id"])
                    removed += tags or [found["Id"]]
        return removed


def _inspect(client: APIClient, reference: str) -> dict:
    try:
        return client.inspect_image(reference)
    except NotFound as error:
        raise ImageMissing(NOT_THERE.format(reference)) from error


def _show_changes(client: APIClient, container: str, look: Look) -> None:
    """Show `look` every file that the container has beside its image's."""
    changed = {entry["Path"].lstrip("/") for entry in client.diff(container) or () if entry["Kind"] in (0, 1)}
    with _Stream(client.export(container)) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            if member.isfile() and member.name.lstrip("./") in changed:
                look("/" + member.name.lstrip("./"), archive.extractfile(member))


class _Stream:
    """Chunks as a file that can be read."""

    def __init__(self, chunks):
        self.chunks = chunks
        self.rest = b""

    def __enter__(self) -> "_Stream":
        return self

    def __exit__(self, *_) -> None:
        for _ in self.chunks:  # to the end, so that the connection is free
            pass

    def read(self, size: int) -> bytes:
        while len(self.rest) < size and (chunk := next(self.chunks, b"")):
            self.rest += chunk
        found, self.rest = self.rest[:size], self.rest[size:]
        return found
