"""Image references of environments: an image on the engine, or a folder of this host with a Dockerfile."""

import re
from pathlib import Path

from django.conf import settings

from dashboard.problems import invalid
from workspaces.drivers import capabilities
from workspaces.drivers.registries import DOCKER_HUB, registry_of
from workspaces.provisioning.git.addresses import allowed_folder, public_addresses

DEFAULT = "handrail/base:bookworm"  # built by `make images`
DOCKERFILE = "Dockerfile"
MAX_BUILD_ARGS = 50
DOCKER_HUBS_HOST = "registry-1.docker.io"
PINNED = "@sha256:"  # in the name of an image that names its digest
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[A-Za-z0-9.-]+(?::\d{1,5})?/)?"
REFERENCE = re.compile(
    rf"(?:{_HOST}{_PART}(?:/{_PART})*(?::[A-Za-z0-9_][A-Za-z0-9._-]{{0,127}})?(?:@sha256:[0-9a-f]{{64}})?"
    r"|sha256:[0-9a-f]{64})"
)


def check(image: str, dockerfile: str = DOCKERFILE) -> str:
    """Return the image reference unchanged if it is valid; otherwise raise Problem 422."""
    if image.startswith("/"):
        context_of(image, dockerfile)
    elif image and not REFERENCE.fullmatch(image):
        raise invalid(f"{image!r} is neither the name of an image nor the path of a folder with a Dockerfile.")
    return image


def may_be_pulled(driver: str, image: str) -> bool:
    """Return whether an environment names an image by a tag that its registry can resolve to a digest."""
    return capabilities.of(driver).takes_image and bool(image) and not image.startswith("/") and "sha256:" not in image


def check_registry(reference: str):
    """Problem 422 if the registry of an image is at a private address, unless the operator named it or allows them."""
    registry = registry_of(reference)
    if registry not in settings.HANDRAIL_PULL_FROM:
        name, _, port = (DOCKER_HUBS_HOST if registry == DOCKER_HUB else registry).partition(":")
        public_addresses(name, int(port or 443))


def context_of(image: str, dockerfile: str = DOCKERFILE) -> Path | None:
    """Return the build context, or None for an image name; Problem 422 if it is not allowed or has no Dockerfile."""
    if not image.startswith("/"):
        return None
    folder = allowed_folder(image, "Images are built")
    file = (folder / dockerfile).resolve()
    if not file.is_relative_to(folder) or not file.is_file():
        raise invalid(f"There is no {dockerfile} in {image}.")
    return folder


def check_build(build: dict, image: str):
    """Problem 422 unless `build` is {dockerfile?, args?, target?} of texts, for an image that is a folder."""
    if not build:
        return
    args, texts = build.get("args", {}), [build.get(name, "") for name in ("dockerfile", "target")]
    if set(build) - {"dockerfile", "args", "target"} or not isinstance(args, dict):
        raise invalid("A build has a dockerfile, args and a target, and nothing else.")
    texts += [*args, *args.values()]
    if not all(isinstance(text, str) and len(text) <= 4000 and "\0" not in text for text in texts):
        raise invalid("The parts of a build are texts of at most 4,000 characters.")
    if len(args) > MAX_BUILD_ARGS:
        raise invalid(f"A build has at most {MAX_BUILD_ARGS} arguments; these are {len(args)}.")
    if not image.startswith("/"):
        raise invalid("A build needs an image that is the path of a folder with a Dockerfile.")
