"""The root of a guest: the image of this host, optionally with a setup layer above it."""

import asyncio
import os
import stat
from collections.abc import Mapping, Set
from pathlib import Path

from workspaces.store.errors import StoreError

from ..base import DriverError, ImageMissing, InspectFile, Layer, RunRecord, RunSpec
from .image import Image, find_image
from .layers import Layers
from .templates import Templates

WITH = " with layer "  # separates image and layer in `RunRecord.image`


class Roots(Templates):
    """Images and setup layers as the root of guests."""

    default_image = "microvm"  # the image last built by `make images`

    async def find_image(self, reference: str) -> str:
        return await asyncio.to_thread(self._find_image, reference)

    async def find_layer(self, name: str) -> Layer | None:
        return await asyncio.to_thread(lambda: self.layers.find(name, digest_of(find_image(self.images))))

    async def keep_layer(self, record: RunRecord, layer: Layer, *, inspect: InspectFile | None = None) -> Layer:
        return await asyncio.to_thread(self._keep_layer, record, layer, inspect)

    async def collect(self, in_use: Set[str], *, older_than_s: float, ages: Mapping[str, float] = {}) -> list[str]:
        return await asyncio.to_thread(self.layers.collect, in_use, older_than_s, ages)

    @property
    def layers(self) -> Layers:
        return Layers(self.home / "images" / "layers")

    def _find_image(self, reference: str | None) -> str:
        self._layer_disk(reference)
        return digest_of(find_image(self.images)) if reference in (None, self.default_image) else reference

    def _layer_disk(self, reference: str | None) -> Path | None:
        """Return the disk of the layer `reference`, None if it is the image itself; ImageMissing if it is neither."""
        base = digest_of(find_image(self.images))
        if reference in (None, self.default_image, base):
            return None
        found = self.layers.disk_of(reference, base)
        if found is None:
            raise ImageMissing(f"There is no image or setup layer {reference[:19]} for microVMs on this host now.")
        return found

    def _layer(self, spec: RunSpec) -> str:
        return spec.image if self._layer_disk(spec.image) is not None else ""

    def _image(self, spec: RunSpec) -> str:
        layer = self._layer(spec)
        return name_of(find_image(self.images)) + (f"{WITH}{layer}" if layer else "")

    def _runs_on(self, record: RunRecord) -> dict:
        name, _, layer = record.image.partition(WITH)
        # If the image was replaced meanwhile, record the old one, so that the memory fits no later start.
        return {"layer": layer} | ({} if name == name_of(find_image(self.images)) else {"root": name})

    def _keep_layer(self, record: RunRecord, layer: Layer, inspect: InspectFile | None) -> Layer:
        base = record.image.partition("@")[2]
        if record.phase != "setup" or WITH in base:
            raise DriverError("Only a setup that began on the image itself leaves a layer.")
        if inspect is not None:
            self._show_installed(record, inspect)
        self._stop(record, 0.0)
        return self.layers.keep(self._folder(record.run_id) / "upper", layer, base)

    def _show_installed(self, record: RunRecord, inspect: InspectFile) -> None:
        """Call `inspect` for each regular file that setup installed."""
        folders = [b""]
        try:
            with self.tree(record).files("installed") as files:
                while folders:
                    at = folders.pop()
                    for name, found in files.entries(at):
                        path = at + b"/" + name if at else name
                        if stat.S_ISDIR(found.st_mode):
                            folders.append(path)
                        elif stat.S_ISREG(found.st_mode):
                            inspect(f"/{os.fsdecode(path)}", Installed(files, path))
        except (OSError, StoreError) as error:
            raise DriverError(f"Setup's installed files were not saved: it could not be read: {error}") from error


class Installed:
    """A file object for sequential reading of a file of a guest."""

    def __init__(self, files, path: bytes):
        self.file, self.at = files.open(path), 0

    def read(self, size: int = -1) -> bytes:
        wanted = size if size >= 0 else self.file.info.st_size
        parts = []
        while wanted > 0 and (piece := self.file.pread(wanted, self.at)):
            parts.append(piece)
            self.at, wanted = self.at + len(piece), wanted - len(piece)
        return b"".join(parts)


def name_of(image: Image) -> str:
    return f"{image.version}@{digest_of(image)}"


def digest_of(image: Image) -> str:
    return f"sha256:{image.root_digest}"
