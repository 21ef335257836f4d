"""The REST API of workspaces (contract: api.md)."""

from ninja import Router

from workspaces.api import (
    artifacts,
    changes,
    checkpoints,
    commands,
    controls,
    drivers,
    files,
    hand_overs,
    installed,
    lessons,
    manifests,
    network,
    notes,
    operations,
    previews,
    retention,
    returning,
    revisions,
    screenshots,
    scrub,
    secrets,
    snapshots,
    storage,
    workspaces,
)

router = Router()
for part in (
    workspaces,
    revisions,
    controls,
    returning,
    operations,
    files,
    commands,
    snapshots,
    screenshots,
    manifests,
    notes,
    lessons,
    hand_overs,
    changes,
    artifacts,
    checkpoints,
    drivers,
    installed,
    network,
    previews,
    storage,
    retention,
    secrets,
    scrub,
):
    router.add_router("", part.router)
