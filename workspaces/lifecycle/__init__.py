"""Operations on a workspace: create, resume, pause, stop, archive, snapshot, restore, fork, delete.

Each function checks whether the operation is possible now and submits it to the runner; workspaces/runner/operations
carry it out and change the state. A request for an operation that is already in flight returns that one.
"""

from workspaces.lifecycle.boundaries import snapshot_before
from workspaces.lifecycle.cancelling import CANCEL_PERMISSIONS, cancel_operation, permission_to_cancel
from workspaces.lifecycle.creation import check_key, check_source, create, create_new, fork, fork_checkpoint
from workspaces.lifecycle.deletion import trash, untrash
from workspaces.lifecycle.snapshots import SAFETY_SNAPSHOT_TIMEOUT, pin, reset, restore, snapshot, take_safety_snapshot
from workspaces.lifecycle.states import (
    ENDS_ON_REQUEST,
    STATE_WORDS,
    archive,
    dismiss,
    ended_on_request,
    must_be,
    pause,
    record,
    require_permission,
    resume,
    resume_for_use,
    retry,
    stop,
    submit_exclusive,
    wait_until_ready,
)

__all__ = [
    "CANCEL_PERMISSIONS",
    "ENDS_ON_REQUEST",
    "SAFETY_SNAPSHOT_TIMEOUT",
    "STATE_WORDS",
    "archive",
    "cancel_operation",
    "check_key",
    "check_source",
    "create",
    "create_new",
    "dismiss",
    "ended_on_request",
    "fork",
    "fork_checkpoint",
    "must_be",
    "pause",
    "permission_to_cancel",
    "pin",
    "record",
    "require_permission",
    "reset",
    "restore",
    "resume",
    "resume_for_use",
    "retry",
    "snapshot",
    "snapshot_before",
    "stop",
    "submit_exclusive",
    "take_safety_snapshot",
    "trash",
    "untrash",
    "wait_until_ready",
]
