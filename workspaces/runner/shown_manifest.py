"""The signed manifest that programs of a workspace read at /workspace/.handrail/manifest.json.

A Run starts with that of the newest snapshot. Once its resume is recorded, it shows the manifest of the resume, and
keeps it until it ends. In a connected folder it is a plain file (`folder_manifest.py`), written at each of both.
"""

import json
from dataclasses import replace
from functools import partial

from django.db import transaction

from workspaces.drivers.base import Driver, RunSpec
from workspaces.manifests import folder_manifest
from workspaces.manifests.keep import download_of
from workspaces.models import Manifest


def with_manifest(spec: RunSpec, driver: Driver, workspace) -> RunSpec:
    """Return the spec with the manifest of the newest snapshot, where the driver can show one. Asks the database."""
    if not driver.capabilities.shows_manifest:
        return spec
    if manifest := _newest(workspace):
        return replace(spec, manifest=_content(manifest))
    return replace(spec, manifest=b"") if driver.capabilities.files_need_run else spec


def show_first(driver: Driver, run_id, workspace):
    """Show the manifest of the first snapshot, which is taken once the Run is up where files need one."""
    if driver.capabilities.shows_manifest and (manifest := _newest(workspace)):
        driver.show_manifest(str(run_id), _content(manifest))


def show_after_commit(driver: Driver, run_id, manifest: Manifest, workspace):
    """Show another manifest in a Run once this transaction is committed."""
    if driver.capabilities.shows_manifest:
        show = partial(driver.show_manifest, str(run_id), _content(manifest))
        transaction.on_commit(show, robust=True)
    put_after_commit(manifest, workspace, again=True)


def put_after_commit(manifest: Manifest, workspace, **how):
    """Write the manifest into a connected folder once this transaction is committed; `how` as for folder_manifest."""
    if workspace.environment.capabilities.own_folder:
        put = partial(folder_manifest.write, workspace, _content(manifest), **how)
        transaction.on_commit(put, robust=True)


def _newest(workspace) -> Manifest | None:
    return Manifest.objects.filter(snapshot=workspace.head_id).first() if workspace.head_id else None


def _content(manifest: Manifest) -> bytes:
    """Return the manifest as it is downloaded, so that it can be verified in the same way."""
    return json.dumps(download_of(manifest), ensure_ascii=False, indent=1).encode() + b"\n"
