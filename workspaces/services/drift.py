"""Compare the version, image and setup script that a workspace was created with to its environment's newest version."""

import hashlib
from dataclasses import dataclass

from workspaces.models import Environment, Snapshot
from workspaces.services.environments import newest_of

MADE = ("setup", "fork")  # kinds of the snapshots taken right after setup


@dataclass(frozen=True)
class Drift:
    """How a workspace differs from its environment: `words` are messages, `newest` is the version to change to."""

    words: tuple[str, ...]
    made_version: int | None
    newest: Environment

    def as_json(self) -> dict:
        return {"made_with_version": self.made_version, "newest_version": self.newest.version, "words": [*self.words]}


def made_with(environment: Environment) -> dict:
    """Return the part of a manifest that identifies the environment, its image and its setup script."""
    return {
        "environment": {"name": environment.name, "version": environment.version, "driver": environment.driver},
        "image": environment.image or None,
        "setup_sha256": hashlib.sha256(environment.setup.encode()).hexdigest() if environment.setup else None,
    }


def drift_of(workspace) -> Drift | None:
    """Return the drift; None if nothing differs, or if no manifest says what the workspace was created with."""
    made = _made_with(workspace)
    if made is None:
        return None
    newest = newest_of(workspace.environment)
    now = made_with(newest)
    was = (made.get("environment") or {}).get("version")
    words = []
    if made.get("image") != now["image"]:
        words.append(
            f"Created with image {_short(made.get('image'))}; the environment now uses {_short(now['image'])}."
        )
    elif made.get("image_digest") not in (None, workspace.base.get("stands_for") or workspace.base.get("digest")):
        words.append(f"The image {_short(workspace.base.get('image'))} is not the one it was created with.")
    if made.get("setup_sha256") != now["setup_sha256"]:
        words.append("The setup script has changed since it was created.")
    if not words and was not in (None, newest.version):
        words.append(f"Created with version {was} of {newest.name}; the newest is {newest.version}.")
    return Drift(tuple(words), was, newest) if words else None


def _made_with(workspace) -> dict | None:
    made = Snapshot.objects.filter(workspace=workspace, kind__in=MADE, manifest__isnull=False)
    last = made.select_related("manifest").order_by("-number").first()
    return last.manifest.body if last else None


def _short(image) -> str:
    return (image or "none of its own")[:80]
