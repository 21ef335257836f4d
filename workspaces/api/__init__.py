"""The REST API of workspaces (contract: api.md)."""

from ninja import Router

from workspaces.api import (
    changes,
    commands,
    controls,
    drivers,
    files,
    network,
    operations,
    revisions,
    snapshots,
    storage,
    workspaces,
)

router = Router()
for part in (
    workspaces,
    revisions,
    controls,
    operations,
    files,
    commands,
    snapshots,
    changes,
    drivers,
    network,
    storage,
):
    router.add_router("", part.router)
