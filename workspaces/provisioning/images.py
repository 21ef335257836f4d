"""Image references of environments: an image on the engine, or a folder of this host with a Dockerfile."""

import re
from pathlib import Path

from dashboard.problems import invalid
from workspaces.provisioning.sources import allowed_folder

DEFAULT = "handrail/base:bookworm"  # built by `make images`
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[A-Za-z0-9.-]+(?::\d{1,5})?/)?"
REFERENCE = re.compile(
    rf"(?:{_HOST}{_PART}(?:/{_PART})*(?::[A-Za-z0-9_][A-Za-z0-9._-]{{0,127}})?(?:@sha256:[0-9a-f]{{64}})?"
    r"|sha256:[0-9a-f]{64})"
)


def check(image: str) -> str:
    """Return the image reference unchanged if it is valid; otherwise raise Problem 422."""
    if image.startswith("/"):
        context_of(image)
    elif image and not REFERENCE.fullmatch(image):
        raise invalid(f"{image!r} is neither the name of an image nor the path of a folder with a Dockerfile.")
    return image


def context_of(image: str) -> Path | None:
    """Return the build context, or None for an image name; Problem 422 if it is not allowed or has no Dockerfile."""
    if not image.startswith("/"):
        return None
    folder = allowed_folder(image, "Images are built")
    if not (folder / "Dockerfile").is_file():
        raise invalid(f"There is no Dockerfile in {image}.")
    return folder
