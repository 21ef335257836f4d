"""Templates: memory images of booted, unconfigured guests, from which Runs of the same shape start."""

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from dashboard.files.locks import take_lock

from ..base import DriverError, RunSpec
from ..local import _wait_free
from . import disks, machine, memory
from .image import find_image
from .suspend import Pausing, Source

KEEP_UNUSED_S = 7 * 24 * 3600


class Templates(Pausing):
    """Make templates, and find the one for a start."""

    async def warm(self, spec: RunSpec, *, is_new: bool = True) -> bool:
        return await asyncio.to_thread(self._warm, spec)

    def _template(self, spec: RunSpec) -> tuple[Path, dict]:
        """Return the template's path for a start with `spec`, and what its memory fits."""
        shape = self._shape(spec, machine.find_qemu(), find_image(self.images))
        sizes = [disks.disk_of(folder).stat().st_size for folder in (spec.workspace, spec.home)]
        belongs = asdict(shape) | {"sizes": sizes}
        digest = hashlib.sha256(json.dumps(belongs, sort_keys=True).encode()).hexdigest()
        return self.images / "templates" / digest[:24] / "memory", belongs

    def _find_template(self, spec: RunSpec) -> Source | None:
        try:
            path, _belongs = self._template(spec)
            if not path.exists():
                return None
        except OSError:
            return None  # no disks, which the start reports; or templates of another user that we cannot read
        with contextlib.suppress(OSError):
            os.utime(path.parent)
        return Source(path.parent / "key", path, is_template=True)

    def _warm(self, spec: RunSpec) -> bool:
        """Boot a guest shaped like that of `spec` with empty disks, and save its memory before it is configured."""
        path, belongs = self._template(spec)
        if path.exists():
            return False
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = take_lock(path.parent / "lock")  # runners of two installations may share the folder
        try:
            if path.exists():
                return False
            self._forget_templates(belongs)
            self._make_template(spec, path, belongs)
        finally:
            os.close(lock)
        return True

    def _forget_templates(self, belongs: dict) -> None:
        """Delete templates of another image, agent or QEMU that have been unused for a week.

        Newer ones stay: an installation of another version may use this folder too.
        """
        for other in (self.images / "templates").glob("*/memory"):
            try:
                known, used_at = memory.head_of(other)["belongs"], other.parent.stat().st_mtime
            except (DriverError, FileNotFoundError):
                continue  # just being made or removed
            if used_at > time.time() - KEEP_UNUSED_S:
                continue
            if any(known.get(name) != belongs[name] for name in ("qemu", "kernel", "root", "initrd")):
                shutil.rmtree(other.parent, ignore_errors=True)

    def _make_template(self, spec: RunSpec, path: Path, belongs: dict) -> None:
        # The Run's cgroup has this name, and another installation on this host may be making the same template.
        run_id = f"template-{hashlib.sha256(str(self.home).encode()).hexdigest()[:12]}-{path.parent.name}"
        with tempfile.TemporaryDirectory(prefix="making-", dir=path.parent) as name:
            folders = [Path(name, part) for part in ("workspace", "home")]
            for folder, size in zip(folders, belongs["sizes"], strict=True):
                disks.make_empty(folder, size, spec.uid)
            empty = RunSpec(run_id, "", "template", *folders, uid=spec.uid, limits=spec.limits)
            for record in self._records():
                if record.run_id == run_id:  # left by a runner that died while making it
                    self._stop(record, 0.0)
                    self._clear(record)
            record = self._start(empty, template=True)
            try:
                self._keep(record, Source(path.parent / "key", path), belongs)
            finally:
                self._kill(record)
                _wait_free(self._folder(run_id) / "lock", 5.0)
                self._clear(record)
