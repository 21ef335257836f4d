"""The image that guests boot: built by `make images`, with the agent appended to its initramfs."""

import hashlib
import json
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from dashboard.files.atomic_write import replace_file
from workspaces.store.guest.client import bundle

from ..base import DriverError
from ..program_archive import init_modules

HERE = Path(__file__).parent
REMOTE = HERE.parent / "remote"
FORMAT = 1
GUEST_FILES = {  # {name below /run/handrail in the guest: source}
    "agent.py": HERE / "guest" / "agent.py",
    "manifest.py": HERE / "guest" / "manifest.py",
    "root.py": HERE / "guest" / "root.py",
    "conversations.py": REMOTE / "conversations.py",
    "kept_output.py": REMOTE / "kept_output.py",
    "mux.py": REMOTE / "mux.py",
    "base_agent.py": REMOTE / "base_agent.py",
    **init_modules(),
}


@dataclass(frozen=True)
class Image:
    """Kernel, initramfs and root, each with the digest that memory images record."""

    folder: Path
    version: str
    kernel: str  # its release, for people
    kernel_digest: str
    root_digest: str
    initrd: Path
    initrd_digest: str

    @property
    def vmlinuz(self) -> Path:
        return self.folder / "vmlinuz"

    @property
    def root(self) -> Path:
        return self.folder / "root.ext4"


def current_version(folder: Path) -> str:
    """Return the version of the current image below `folder`, or "". `make images` switches it as its last step."""
    try:
        return os.readlink(folder / "current")
    except OSError:
        return ""


def find_image(folder: Path) -> Image:
    """Return the current image below `folder` with its initramfs completed; DriverError if there is none."""
    current = folder / "current"
    try:
        manifest = json.loads((current / "manifest.json").read_text())
        version = os.readlink(current)
    except (OSError, ValueError) as error:
        raise DriverError("There is no image for microVMs on this host.") from error
    if manifest.get("format") != FORMAT:
        raise DriverError("The image for microVMs was built by another version of Handrail.")
    where = folder / version
    initrd, digest = _finish_initrd(where, manifest["base_sha256"])
    return Image(
        folder=where,
        version=version,
        kernel=manifest["kernel"],
        kernel_digest=manifest["vmlinuz_sha256"],
        root_digest=manifest["root_sha256"],
        initrd=initrd,
        initrd_digest=digest,
    )


def _finish_initrd(where: Path, base_digest: str) -> tuple[Path, str]:
    """Return the path and digest of the built initramfs with our own files appended; made once for each content."""
    added = _added()
    digest = hashlib.sha256(base_digest.encode() + added).hexdigest()
    path = where / f"initrd-{digest[:16]}"
    if not path.exists():
        replace_file(path, (where / "base.cpio").read_bytes() + added, mode=0o644)
    return path, digest


@lru_cache(maxsize=1)
def _added() -> bytes:
    """Return a cpio archive of init.sh, the agent and the tree server."""
    entries = [(b"init", 0o100755, (HERE / "guest" / "init.sh").read_bytes())]
    folders = ("handrail", "handrail/init", "handrail/init/envelope", "handrail/init/envelope/agents")
    entries += [(folder.encode(), 0o040755, b"") for folder in folders]
    entries += [(f"handrail/{name}".encode(), 0o100644, path.read_bytes()) for name, path in GUEST_FILES.items()]
    entries += [(b"handrail/tree.pyz", 0o100644, bundle())]
    return b"".join(_cpio(number, *entry) for number, entry in enumerate(entries, 1)) + _cpio(0, b"TRAILER!!!", 0, b"")


def _cpio(inode: int, name: bytes, mode: int, content: bytes) -> bytes:
    """Return one entry of a cpio archive in "newc" format, the initramfs format of the kernel."""
    fields = (inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name + b"\0"
    return _padded(head) + _padded(content)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
