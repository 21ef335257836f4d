"""Templates: guests that have booted and belong to nobody, from which the Runs of their shape start."""

import asyncio
import fcntl
import hashlib
import json
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path

from ..base import DriverError, RunSpec
from ..local import _wait_free
from . import disks, machine, memory
from .image import find_image
from .pausing import Pausing, Source


class Templates(Pausing):
    async def warm(self, spec: RunSpec) -> bool:
        return await asyncio.to_thread(self._warm, spec)

    def _template(self, spec: RunSpec) -> tuple[Path, dict]:
        shape = self._shape(spec, machine.find_qemu(), find_image(self.images))
        sizes = [disks.disk_of(folder).stat().st_size for folder in (spec.workspace, spec.home)]
        belongs = asdict(shape) | {"sizes": sizes}
        digest = hashlib.sha256(json.dumps(belongs, sort_keys=True).encode()).hexdigest()
        return self.images / "templates" / digest[:24] / "memory", belongs

    def _find_template(self, spec: RunSpec) -> Source | None:
        try:
            path, _belongs = self._template(spec)
        except OSError:
            return None  # no disks: the start says so
        return Source(path.parent / "key", path, is_template=True) if path.exists() else None

    def _warm(self, spec: RunSpec) -> bool:
        """Boot a guest like that of `spec` with empty disks, and keep it as it is before it belongs to anybody."""
        path, belongs = self._template(spec)
        if path.exists():
            return False
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(path.parent / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two runners may share the images
            if path.exists():
                return False
            self._forget_templates(belongs)
            self._make_template(spec, path, belongs)
        return True

    def _forget_templates(self, belongs: dict) -> None:
        """Remove those that nothing can use any more, since the image, the agent or QEMU has changed."""
        for other in (self.images / "templates").glob("*/memory"):
            try:
                known = memory.head_of(other)["belongs"]
            except DriverError:
                continue  # being made
            if any(known.get(name) != belongs[name] for name in ("qemu", "kernel", "root", "initrd")):
                shutil.rmtree(other.parent, ignore_errors=True)

    def _make_template(self, spec: RunSpec, path: Path, belongs: dict) -> None:
        run_id = f"template-{path.parent.name}"
        with tempfile.TemporaryDirectory(prefix="making-", dir=path.parent) as name:
            folders = [Path(name, part) for part in ("workspace", "home")]
            for folder, size in zip(folders, belongs["sizes"], strict=True):
                disks.make_empty(folder, size, spec.uid)
            empty = RunSpec(run_id, "", "template", *folders, uid=spec.uid, limits=spec.limits)
            for owner in self._owners():
                if owner.run_id == run_id:  # of a runner that died over it
                    self._stop(owner, 0.0)
                    self._clear(owner)
            owner = self._start(empty, template=True)
            try:
                self._keep(owner, Source(path.parent / "key", path), belongs)
            finally:
                self._kill(owner)
                _wait_free(self._folder(run_id) / "lock", 5.0)
                self._clear(owner)
