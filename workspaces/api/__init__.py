"""Workspaces over REST (contract: api.md). Each operation finds what the caller may see, does one thing and answers."""

from ninja import Router

from workspaces.api import changes, files, host, living, moves, network, programs, snapshots, storage, workspaces

router = Router()
for part in (workspaces, living, moves, files, programs, snapshots, changes, host, network, storage):
    router.add_router("", part.router)
