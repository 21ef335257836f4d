"""Take what held programs created at protected paths out of the workspace, and say so among what was refused."""

import logging

from dashboard.database import clock
from workspaces import lifecycle
from workspaces.drivers.init_client import InitClient, InitGone, InitRefused
from workspaces.host import quarantine
from workspaces.runner.reconcile.liveness import SYSTEM
from workspaces.store.safe_open import BadPath

logger = logging.getLogger("handrail.runner")
MAX_ROUNDS = 100


async def collect_created(daemon, workspace, owner) -> list[dict]:
    """Move what held programs of the Run have created since the last time; return it: [{kind, what}].

    `kind` is "quarantine", or "created" where it could not be moved: the files of a microVM are not on this host.
    """
    if owner is None:
        return []
    here = not daemon.driver(workspace.environment.driver).capabilities.files_need_run
    return await daemon.thread(_take_all, workspace, owner, here)


def _take_all(workspace, owner, here: bool) -> list[dict]:
    found, taken = [], []
    try:
        with InitClient(owner.address.socket) as init:
            for _ in range(MAX_ROUNDS):
                said = init.request("created", taken=taken)
                created, appeared = _paths(said.get("created")), _paths(said.get("appeared"))
                taken = created + appeared
                if not taken:
                    break
                found += [_take(workspace, path) if here else {"kind": "created", "what": path} for path in created]
                for path in appeared:
                    lifecycle.record(workspace, SYSTEM, "file.appeared", {"path": path, "reason": path})
    except (InitGone, InitRefused) as error:
        logger.info("the init of %s does not say what its programs created: %s", workspace.key, error)
    return found


def _paths(said) -> list[str]:
    return [path for path in said if isinstance(path, str)] if isinstance(said, list) else []


def _take(workspace, path: str) -> dict:
    try:
        entry = quarantine.take(workspace, path, clock.now())
    except (OSError, BadPath) as error:
        logger.warning("%s of %s could not be moved into quarantine: %s", path, workspace.key, error)
        return {"kind": "created", "what": path}
    if entry is not None:
        lifecycle.record(workspace, SYSTEM, "file.quarantined", {"path": path, "reason": path})
    return {"kind": "quarantine", "what": path}
