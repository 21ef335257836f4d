"""Images that environments name: one that is on the engine, or a folder of this host with a Dockerfile in it."""

import re
from pathlib import Path

from dashboard.problems import invalid
from workspaces.sources import allowed_folder

DEFAULT = "handrail/base:bookworm"  # what `make images` makes
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[A-Za-z0-9.-]+(?::\d{1,5})?/)?"
REFERENCE = re.compile(
    rf"(?:{_HOST}{_PART}(?:/{_PART})*(?::[A-Za-z0-9_][A-Za-z0-9._-]{{0,127}})?(?:@sha256:[0-9a-f]{{64}})?"
    r"|sha256:[0-9a-f]{64})"
)


def check(image: str) -> str:
    """The image as it is stored, if it makes sense; Problem 422."""
    if image.startswith("/"):
        context_of(image)
    elif image and not REFERENCE.fullmatch(image):
        raise invalid(f"{image!r} is neither the name of an image nor the path of a folder with a Dockerfile.")
    return image


def context_of(image: str) -> Path | None:
    """The folder to build; None for the name of an image. Problem 422 for a folder that is not allowed."""
    if not image.startswith("/"):
        return None
    folder = allowed_folder(image, "Images are built")
    if not (folder / "Dockerfile").is_file():
        raise invalid(f"There is no Dockerfile in {image}.")
    return folder
