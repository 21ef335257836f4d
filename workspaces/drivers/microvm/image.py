"""The image that guests boot: what `make images` built, and the initramfs that we finish with the agent."""

import hashlib
import json
import os
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ...store.remote import bundle
from ..base import DriverError

HERE = Path(__file__).parent
FORMAT = 1
GUEST_FILES = (
    HERE / "guest" / "agent.py",
    HERE / "guest" / "conversations.py",
    HERE / "guest" / "root.py",
    HERE / "streams.py",
    HERE.parent / "init.py",
)


@dataclass(frozen=True)
class Image:
    """Kernel, initramfs and root, each with the digest by which a memory image knows it."""

    folder: Path
    version: str
    kernel: str  # its release, in words
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


def find_image(folder: Path) -> Image:
    """The current image below `folder`, its initramfs finished; DriverError when there is none."""
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
    """The built part and, behind it, what belongs to this version of Handrail; made once for each content."""
    added = _added()
    digest = hashlib.sha256(base_digest.encode() + added).hexdigest()
    path = where / f"initrd-{digest[:16]}"
    if not path.exists():
        put(path, (where / "base.cpio").read_bytes() + added)
    return path, digest


def put(path: Path, content: bytes) -> None:
    """Put a file there that anybody may read, whole; several processes may do that at once."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
        os.fchmod(file.fileno(), 0o644)
    os.replace(file.name, path)


@lru_cache(maxsize=1)
def _added() -> bytes:
    entries = [(b"init", 0o100755, (HERE / "guest" / "init.sh").read_bytes()), (b"handrail", 0o040755, b"")]
    entries += [(b"handrail/" + path.name.encode(), 0o100644, path.read_bytes()) for path in GUEST_FILES]
    entries += [(b"handrail/tree.pyz", 0o100644, bundle())]
    return b"".join(_cpio(number, *entry) for number, entry in enumerate(entries, 1)) + _cpio(0, b"TRAILER!!!", 0, b"")


def _cpio(inode: int, name: bytes, mode: int, content: bytes) -> bytes:
    """One entry of a "newc" archive, as the kernel unpacks it."""
    fields = (inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name + b"\0"
    return _padded(head) + _padded(content)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
