"""How the Log page shows an event: a sentence for its verb, its data on one line. The export has both as stored."""

import re

WORDS = {
    "action.allowed": "Auto-approved",
    "action.answered_on_device": "Answered from a notification",
    "action.approved": "Approved",
    "action.cancelled": "Cancelled",
    "action.changed": "Changed since it was approved",
    "action.consumed": "Started after approval",
    "action.denied": "Denied",
    "action.edited": "Edited before approval",
    "action.expired": "Expired",
    "action.extended": "Extended the expiry",
    "action.question_asked": "Asked the agent about its call",
    "action.question_answered": "Answered a question about its call",
    "action.reopened": "Took an answer back",
    "action.failed": "Failed",
    "action.read_at_code_host": "Read at the code host",
    "action.rehearsal_outdated": "Files changed since it was tried",
    "action.ran_differently": "ALARM: ran another command than was allowed",
    "action.rehearsed": "Asked to try it first",
    "action.submitted": "Asked to…",
    "action.succeeded": "Done",
    "action.uncertain": "Ended without a known outcome",
    "action.vote": "Approved; more approvals needed",
    "action.waiting": "Needs approval",
    "agent.added": "Added an agent",
    "agent.changed": "Changed an agent",
    "agent.paused": "Paused an agent",
    "agent.unpaused": "Resumed an agent",
    "command.asked": "Asked to run a command",
    "command.cancelled": "Cancelled a command",
    "command.ended": "Command ended",
    "command.unclear": "Command ended without a known outcome",
    "environment.added": "Added an environment",
    "environment.changed": "Changed an environment",
    "environment.saved": "Saved a version of an environment",
    "file.deleted": "Deleted a file",
    "file.hunk_reverted": "Reverted part of a file",
    "file.appeared": "A protected path appeared while an agent's program ran in the background",
    "file.quarantined": "Moved a protected path into quarantine",
    "file.written": "Wrote a file",
    "grant.given": "Auto-approved calls for a limited time",
    "grant.revoked": "Revoked a grant",
    "membership.added": "Added a person to the team",
    "membership.changed": "Changed a person's role",
    "network.allowed": "Allowed a host",
    "network.blocked": "Blocked a connection",
    "network.host_port_closed": "Took back a port of this machine",
    "network.host_port_opened": "Let the box reach a port of this machine",
    "network.port_closed": "Closed a forwarded port",
    "network.port_forwarded": "Forwarded a port",
    "network.revoked": "Revoked an allowed host",
    "operation.refused": "Refused a late result",
    "person.added": "Added a person",
    "person.channel_added": "Added a notification channel",
    "person.codes_app_added": "Added an authenticator app",
    "person.codes_app_removed": "Removed the authenticator app",
    "person.device_added": "Switched on notifications on a device",
    "person.invitation_withdrawn": "Withdrew an invitation",
    "person.link_made": "Created a sign-in link",
    "person.passkey_added": "Added a passkey",
    "person.passkey_removed": "Removed a passkey",
    "person.passkey_renamed": "Renamed a passkey",
    "person.recovery_code_used": "Used a recovery code",
    "person.recovery_codes_added": "Made recovery codes",
    "person.recovery_codes_removed": "Removed the recovery codes",
    "person.removed": "Removed a person",
    "person.role_changed": "Changed a person's role",
    "person.second_factor_reset": "Removed passkeys, authenticator app and recovery codes",
    "person.sign_in_failed": "Sign-in failed",
    "person.signed_in": "Signed in",
    "person.signed_out": "Signed out",
    "policy.retired": "Removed an environment's policy",
    "policy.saved": "Saved a policy",
    "retention.saved": "Changed retention",
    "retention.swept": "Deleted data past its retention",
    "retentionpolicy.added": "Added a retention policy",
    "retentionpolicy.changed": "Changed a retention policy",
    "run.token_made": "Created a token for a run",
    "secret.deleted": "Deleted a secret",
    "secret.expiry_changed": "Changed when a secret expires",
    "secret.in_home": "Found a secret in the home folder",
    "secret.kept": "Allowed a secret in snapshots",
    "secret.replaced": "Replaced a secret",
    "secret.set": "Set a secret",
    "service.asked": "Started a service",
    "session.ended": "Session ended",
    "session.started": "Session started",
    "session.stopped": "Turn ended",
    "snapshot.pinned": "Pinned a snapshot",
    "snapshot.taken": "Took a snapshot",
    "snapshot.unpinned": "Unpinned a snapshot",
    "store.accepted": "Accepted another snapshot store",
    "store.check_asked": "Asked to check the snapshot store",
    "store.check_stopped": "Asked to stop the check of the snapshot store",
    "store.collect_asked": "Asked to free space in the snapshot store",
    "store.collect_stopped": "Asked to stop freeing space in the snapshot store",
    "store.damaged": "Found damage in the snapshot store",
    "store.repair_asked": "Asked to repair the snapshot store",
    "store.repair_stopped": "Asked to stop the repair of the snapshot store",
    "system.restored": "Restored from a backup",
    "team.added": "Added a team",
    "team.changed": "Changed a team",
    "team.lifted": "Resumed after a stop",
    "team.passkey_not_required": "Passkeys no longer required",
    "team.passkey_required": "Passkeys required",
    "team.solo_reopened": "Reopened approval by a single person",
    "team.stopped": "Stopped everything",
    "terminal.ended": "Terminal ended",
    "terminal.opened": "Opened a terminal",
    "terminal.typed": "Typed into a terminal",
    "token.added": "Added a token",
    "token.changed": "Changed a token",
    "token.created": "Created a token",
    "token.revoked": "Revoked a token",
    "user.added": "Added an account",
    "user.changed": "Changed an account",
    "workspace.agents_changed": "Changed which agents may work here",
    "workspace.connected": "Connected a folder",
    "workspace.created": "Created a workspace",
    "workspace.end_failed": "Exited, but could not be cleaned up yet",
    "workspace.ended": "Exited",
    "workspace.environment_changed": "Changed a version of its environment",
    "workspace.failed": "Failed",
    "workspace.forgot": "Deleted old output or the agent's home",
    "workspace.forked": "Forked a workspace",
    "workspace.found_kept": "Accepted the files as they are",
    "workspace.frozen": "Frozen",
    "workspace.hook_in_place": "Hook restored",
    "workspace.held": "Calls are held in a box",
    "workspace.not_held": "Calls are not held",
    "workspace.hook_missing": "Hook is missing or changed",
    "workspace.kept": "Kept an unused workspace",
    "workspace.kept_awake": "Changed how long it stays awake",
    "workspace.maintenance_failed": "Maintenance script failed",
    "workspace.nearly_full": "Nearly full",
    "workspace.operation_stopped": "Asked to stop an operation",
    "workspace.orphan_stopped": "Stopped a leftover process",
    "workspace.paused": "Paused",
    "workspace.proof_failed": "Files differ from the snapshot",
    "workspace.proven": "Files match the snapshot",
    "workspace.purged": "Deleted for good",
    "workspace.pushed": "Pushed",
    "workspace.reachable": "Reachable again",
    "workspace.ready": "Ready",
    "workspace.rebuild_failed": "Rebuild failed",
    "workspace.rebuilt": "Rebuilt",
    "workspace.rehearsed": "Tried a command on a copy",
    "workspace.restore_failed": "Restore failed",
    "workspace.restored": "Restored",
    "workspace.resume_failed": "Resume failed",
    "workspace.resumed": "Resumed",
    "workspace.retried": "Tried to create it again",
    "workspace.revised": "Updated from its source",
    "workspace.revision_refused": "Update from its source refused",
    "workspace.root_changed": "Image or set-up was built again",
    "workspace.stopped": "Stopped",
    "workspace.thawed": "Resumed after a full disk",
    "workspace.trashed": "Moved to the trash",
    "workspace.unreachable": "Unreachable",
    "workspace.untrashed": "Restored from trash",
    "workspace.warned": "Unused; will move to the trash",
}


def in_words(verb: str) -> str:
    """Return the sentence for a verb, or the verb itself if it has none."""
    return WORDS.get(verb, verb)


# Labels of fields in an event's data; the others are shown with spaces for underscores.
LABELS = {
    "approved_by": "approved by",
    "home": "home deleted",
    "how": "by",
    "made_at": "backup of",
    "of": "belongs to",
    "ok": "succeeded",
    "prefix": "token",
    "sha256": "SHA-256",
    "unclear": "operations with unknown outcome",
    "was": "before",
    "why": "reason",
    "withdrawn": "approvals cancelled",
}
# Not shown: they repeat the row's other columns, or are ids that nobody reads.
HIDDEN_FIELDS = {"approved_by", "credential", "epoch", "operation", "tree", "store"}
DIGESTS, TIMES = {"sha256", "was", "key_sha256"}, {"made_at", "until"}  # fields that may hold one
CODES = {"how", "kind", "phase", "reason_code", "scope", "type", "why"}  # fields whose values are codes of ours
MAX_DETAILS = 300  # characters
_DIGEST = re.compile(r"[0-9a-f]{32,64}")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(?::\d\d(?:\.\d+)?)?(?:\+00:00|Z)")


def details(data: dict) -> str:
    """Return an event's data on one line: its title, or `label: value` pairs separated by " · "."""
    if title := data.get("title"):
        passkey = data.get("passkey")
        return f"{title} · confirmed with passkey {passkey['name']}" if isinstance(passkey, dict) else str(title)
    shown = [
        f"{LABELS.get(name, name.replace('_', ' '))}: {_readable(name, value)}"
        for name, value in data.items()
        if name not in HIDDEN_FIELDS and value not in (None, "", {}, [])
    ]
    return " · ".join(shown)[:MAX_DETAILS]


def _readable(name: str, value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_readable(key, inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(_readable(name, inner) for inner in value)
    text = str(value)
    if name in DIGESTS and _DIGEST.fullmatch(text):
        return f"{text[:8]}…"
    if name in TIMES and (time := _TIME.fullmatch(text)):
        return f"{time[1]} {time[2]} UTC"
    return text.replace("_", " ") if name in CODES else text
