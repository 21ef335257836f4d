"""Compare what a workspace was set up with to what its environment and its lock files are now."""

from dataclasses import dataclass

from workspaces.manifests.body import made_with, manifest_after_setup, since_set_up
from workspaces.models import Environment, Manifest
from workspaces.services.environments.versions import newest_of

NAMED = 5  # lock files


@dataclass(frozen=True)
class Drift:
    """How a workspace differs from its environment: `words` are messages, `newest` is the version to change to.

    `lock_files`: [{path, change}] of those that changed since setup, as of the newest snapshot.
    """

    words: tuple[str, ...]
    made_version: int | None
    newest: Environment
    lock_files: tuple[dict, ...] = ()

    @property
    def is_of_files_alone(self) -> bool:
        """Return whether only lock files changed, so that the same version can be set up again."""
        return bool(self.lock_files) and len(self.words) == 1

    def as_json(self) -> dict:
        versions = {"made_with_version": self.made_version, "newest_version": self.newest.version}
        return versions | {"words": [*self.words], "lock_files": [*self.lock_files]}


def drift_of(workspace) -> Drift | None:
    """Return the drift; None if nothing differs, or if no manifest says what the workspace was created with."""
    made = manifest_after_setup(workspace)
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
    lock_files = since_set_up(workspace.environment, made, _lock_files(workspace))
    if lock_files:
        words.append(_out_of_date(lock_files))
    return Drift(tuple(words), was, newest, tuple(lock_files)) if words else None


def _lock_files(workspace) -> list | None:
    """Return the lock files of the newest snapshot, None if it has no manifest that names them."""
    rows = Manifest.objects.filter(snapshot=workspace.head_id) if workspace.head_id else Manifest.objects.none()
    return rows.values_list("body__lock_files", flat=True).first()


def _out_of_date(lock_files: list[dict]) -> str:
    named = [f"{item['path'][:80]} {_DONE[item['change']]}" for item in lock_files[:NAMED]]
    more = f", and {len(lock_files) - NAMED} more" if len(lock_files) > NAMED else ""
    return f"Set-up is out of date: {', '.join(named)}{more}."


_DONE = {"changed": "changed", "added": "was added", "removed": "was removed"}


def _short(image) -> str:
    return (image or "none of its own")[:80]
