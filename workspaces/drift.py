"""Whether what a workspace was made with is still what its environment says: version, image and set-up script."""

import hashlib
from dataclasses import dataclass

from workspaces.environments import newest_of
from workspaces.models import Environment, Snapshot

MADE = ("setup", "fork")  # kinds of snapshots that are taken right after a set-up


@dataclass(frozen=True)
class Drift:
    """`words` say what is another one; `newest` is the version that could be used instead."""

    words: tuple[str, ...]
    made_version: int | None
    newest: Environment

    def as_json(self) -> dict:
        return {"made_with_version": self.made_version, "newest_version": self.newest.version, "words": [*self.words]}


def made_with(environment: Environment) -> dict:
    """What of an environment decides what is there besides the files, as manifests have it."""
    return {
        "environment": {"name": environment.name, "version": environment.version, "driver": environment.driver},
        "image": environment.image or None,
        "setup_sha256": hashlib.sha256(environment.setup.encode()).hexdigest() if environment.setup else None,
    }


def drift_of(workspace) -> Drift | None:
    """None when nothing is different, or when nobody knows what it was made with."""
    made = _made_with(workspace)
    if made is None:
        return None
    newest = newest_of(workspace.environment)
    now = made_with(newest)
    was = (made.get("environment") or {}).get("version")
    words = []
    if made.get("image") != now["image"]:
        words.append(f"Made with image {_short(made.get('image'))}; the environment now uses {_short(now['image'])}.")
    elif made.get("image_digest") not in (None, workspace.base.get("stands_for") or workspace.base.get("digest")):
        words.append(f"The image {_short(workspace.base.get('image'))} is not the one that it was made with.")
    if made.get("setup_sha256") != now["setup_sha256"]:
        words.append("The set-up script is not the one that made it.")
    if not words and was not in (None, newest.version):
        words.append(f"Made with version {was} of {newest.name}; the newest is {newest.version}.")
    return Drift(tuple(words), was, newest) if words else None


def _made_with(workspace) -> dict | None:
    made = Snapshot.objects.filter(workspace=workspace, kind__in=MADE, manifest__isnull=False)
    last = made.select_related("manifest").order_by("-number").first()
    return last.manifest.body if last else None


def _short(image) -> str:
    return (image or "none of its own")[:80]
