"""How the Log page shows an event: a sentence for its verb, its data on one line. The export has both as stored."""

import re

from django.utils.translation import gettext_lazy

WORDS = {
    "action.allowed": gettext_lazy("Auto-approved"),
    "action.answered_on_device": gettext_lazy("Answered from a notification"),
    "action.approved": gettext_lazy("Approved"),
    "action.cancelled": gettext_lazy("Cancelled"),
    "action.changed": gettext_lazy("Changed since it was approved"),
    "action.consumed": gettext_lazy("Started after approval"),
    "action.denied": gettext_lazy("Denied"),
    "action.edited": gettext_lazy("Edited before approval"),
    "action.expired": gettext_lazy("Expired"),
    "action.extended": gettext_lazy("Extended the expiry"),
    "action.question_asked": gettext_lazy("Asked the agent about its call"),
    "action.question_answered": gettext_lazy("Answered a question about its call"),
    "action.reopened": gettext_lazy("Took an answer back"),
    "action.failed": gettext_lazy("Failed"),
    "action.read_at_code_host": gettext_lazy("Read at the code host"),
    "action.rehearsal_outdated": gettext_lazy("Files changed since it was tried"),
    "action.ran_differently": gettext_lazy("ALARM: ran another command than was allowed"),
    "action.rehearsed": gettext_lazy("Asked to try it first"),
    "action.submitted": gettext_lazy("Asked to…"),
    "action.succeeded": gettext_lazy("Done"),
    "action.uncertain": gettext_lazy("Ended without a known outcome"),
    "action.vote": gettext_lazy("Approved; more approvals needed"),
    "action.waiting": gettext_lazy("Needs approval"),
    "agent.added": gettext_lazy("Added an agent"),
    "agent.changed": gettext_lazy("Changed an agent"),
    "agent.go_on": gettext_lazy("Let an interrupted agent go on"),
    "agent.interrupt_heard": gettext_lazy("Heard that it is interrupted"),
    "agent.interrupted": gettext_lazy("Interrupted an agent"),
    "agent.message_given": gettext_lazy("Got a message"),
    "agent.messaged": gettext_lazy("Sent an agent a message"),
    "agent.paused": gettext_lazy("Paused an agent"),
    "agent.unpaused": gettext_lazy("Resumed an agent"),
    "command.asked": gettext_lazy("Asked to run a command"),
    "command.cancelled": gettext_lazy("Cancelled a command"),
    "command.ended": gettext_lazy("Command ended"),
    "command.unclear": gettext_lazy("Command ended without a known outcome"),
    "environment.added": gettext_lazy("Added an environment"),
    "environment.changed": gettext_lazy("Changed an environment"),
    "environment.saved": gettext_lazy("Saved a version of an environment"),
    "file.deleted": gettext_lazy("Deleted a file"),
    "file.hunk_reverted": gettext_lazy("Reverted part of a file"),
    "file.appeared": gettext_lazy("A protected path appeared while an agent's program ran in the background"),
    "file.quarantined": gettext_lazy("Moved a protected path into quarantine"),
    "file.written": gettext_lazy("Wrote a file"),
    "grant.given": gettext_lazy("Auto-approved calls for a limited time"),
    "grant.revoked": gettext_lazy("Revoked a grant"),
    "membership.added": gettext_lazy("Added a person to the team"),
    "membership.changed": gettext_lazy("Changed a person's role"),
    "network.allowed": gettext_lazy("Allowed a host"),
    "network.blocked": gettext_lazy("Blocked a connection"),
    "network.host_port_closed": gettext_lazy("Took back a port of this machine"),
    "network.host_port_opened": gettext_lazy("Let the box reach a port of this machine"),
    "network.port_closed": gettext_lazy("Closed a forwarded port"),
    "network.port_forwarded": gettext_lazy("Forwarded a port"),
    "network.revoked": gettext_lazy("Revoked an allowed host"),
    "operation.refused": gettext_lazy("Refused a late result"),
    "person.added": gettext_lazy("Added a person"),
    "person.channel_added": gettext_lazy("Added a notification channel"),
    "person.codes_app_added": gettext_lazy("Added an authenticator app"),
    "person.codes_app_removed": gettext_lazy("Removed the authenticator app"),
    "person.device_added": gettext_lazy("Switched on notifications on a device"),
    "person.invitation_withdrawn": gettext_lazy("Withdrew an invitation"),
    "person.link_made": gettext_lazy("Created a sign-in link"),
    "person.passkey_added": gettext_lazy("Added a passkey"),
    "person.passkey_removed": gettext_lazy("Removed a passkey"),
    "person.passkey_renamed": gettext_lazy("Renamed a passkey"),
    "person.recovery_code_used": gettext_lazy("Used a recovery code"),
    "person.recovery_codes_added": gettext_lazy("Made recovery codes"),
    "person.recovery_codes_removed": gettext_lazy("Removed the recovery codes"),
    "person.removed": gettext_lazy("Removed a person"),
    "person.role_changed": gettext_lazy("Changed a person's role"),
    "person.second_factor_reset": gettext_lazy("Removed passkeys, authenticator app and recovery codes"),
    "person.sign_in_failed": gettext_lazy("Sign-in failed"),
    "person.signed_in": gettext_lazy("Signed in"),
    "person.signed_out": gettext_lazy("Signed out"),
    "policy.retired": gettext_lazy("Removed an environment's policy"),
    "policy.saved": gettext_lazy("Saved a policy"),
    "retention.saved": gettext_lazy("Changed retention"),
    "retention.swept": gettext_lazy("Deleted data past its retention"),
    "retentionpolicy.added": gettext_lazy("Added a retention policy"),
    "retentionpolicy.changed": gettext_lazy("Changed a retention policy"),
    "run.token_made": gettext_lazy("Created a token for a run"),
    "secret.deleted": gettext_lazy("Deleted a secret"),
    "secret.expiry_changed": gettext_lazy("Changed when a secret expires"),
    "secret.in_home": gettext_lazy("Found a secret in the home folder"),
    "secret.kept": gettext_lazy("Allowed a secret in snapshots"),
    "secret.replaced": gettext_lazy("Replaced a secret"),
    "secret.set": gettext_lazy("Set a secret"),
    "service.asked": gettext_lazy("Started a service"),
    "session.ended": gettext_lazy("Session ended"),
    "session.started": gettext_lazy("Session started"),
    "session.stopped": gettext_lazy("Turn ended"),
    "snapshot.pinned": gettext_lazy("Pinned a snapshot"),
    "snapshot.taken": gettext_lazy("Took a snapshot"),
    "snapshot.unpinned": gettext_lazy("Unpinned a snapshot"),
    "store.accepted": gettext_lazy("Accepted another snapshot store"),
    "store.check_asked": gettext_lazy("Asked to check the snapshot store"),
    "store.check_stopped": gettext_lazy("Asked to stop the check of the snapshot store"),
    "store.collect_asked": gettext_lazy("Asked to free space in the snapshot store"),
    "store.collect_stopped": gettext_lazy("Asked to stop freeing space in the snapshot store"),
    "store.damaged": gettext_lazy("Found damage in the snapshot store"),
    "store.repair_asked": gettext_lazy("Asked to repair the snapshot store"),
    "store.repair_stopped": gettext_lazy("Asked to stop the repair of the snapshot store"),
    "system.restored": gettext_lazy("Restored from a backup"),
    "team.added": gettext_lazy("Added a team"),
    "team.changed": gettext_lazy("Changed a team"),
    "team.lifted": gettext_lazy("Resumed after a stop"),
    "team.passkey_not_required": gettext_lazy("Passkeys no longer required"),
    "team.passkey_required": gettext_lazy("Passkeys required"),
    "team.solo_reopened": gettext_lazy("Reopened approval by a single person"),
    "team.stopped": gettext_lazy("Stopped everything"),
    "terminal.ended": gettext_lazy("Terminal ended"),
    "terminal.opened": gettext_lazy("Opened a terminal"),
    "terminal.typed": gettext_lazy("Typed into a terminal"),
    "token.added": gettext_lazy("Added a token"),
    "token.changed": gettext_lazy("Changed a token"),
    "token.created": gettext_lazy("Created a token"),
    "token.revoked": gettext_lazy("Revoked a token"),
    "user.added": gettext_lazy("Added an account"),
    "user.changed": gettext_lazy("Changed an account"),
    "workspace.agents_changed": gettext_lazy("Changed which agents may work here"),
    "workspace.connected": gettext_lazy("Connected a folder"),
    "workspace.created": gettext_lazy("Created a workspace"),
    "workspace.end_failed": gettext_lazy("Exited, but could not be cleaned up yet"),
    "workspace.ended": gettext_lazy("Exited"),
    "workspace.environment_changed": gettext_lazy("Changed a version of its environment"),
    "workspace.failed": gettext_lazy("Failed"),
    "workspace.forgot": gettext_lazy("Deleted old output or the agent's home"),
    "workspace.forked": gettext_lazy("Forked a workspace"),
    "workspace.found_kept": gettext_lazy("Accepted the files as they are"),
    "workspace.frozen": gettext_lazy("Frozen"),
    "workspace.hook_in_place": gettext_lazy("Hook restored"),
    "workspace.held": gettext_lazy("Calls are held in a box"),
    "workspace.not_held": gettext_lazy("Calls are not held"),
    "workspace.hook_missing": gettext_lazy("Hook is missing or changed"),
    "workspace.kept": gettext_lazy("Kept an unused workspace"),
    "workspace.kept_awake": gettext_lazy("Changed how long it stays awake"),
    "workspace.maintenance_failed": gettext_lazy("Maintenance script failed"),
    "workspace.nearly_full": gettext_lazy("Nearly full"),
    "workspace.operation_stopped": gettext_lazy("Asked to stop an operation"),
    "workspace.orphan_stopped": gettext_lazy("Stopped a leftover process"),
    "workspace.paused": gettext_lazy("Paused"),
    "workspace.proof_failed": gettext_lazy("Files differ from the snapshot"),
    "workspace.proven": gettext_lazy("Files match the snapshot"),
    "workspace.purged": gettext_lazy("Deleted for good"),
    "workspace.pushed": gettext_lazy("Pushed"),
    "workspace.reachable": gettext_lazy("Reachable again"),
    "workspace.ready": gettext_lazy("Ready"),
    "workspace.rebuild_failed": gettext_lazy("Rebuild failed"),
    "workspace.rebuilt": gettext_lazy("Rebuilt"),
    "workspace.rehearsed": gettext_lazy("Tried a command on a copy"),
    "workspace.restore_failed": gettext_lazy("Restore failed"),
    "workspace.restored": gettext_lazy("Restored"),
    "workspace.resume_failed": gettext_lazy("Resume failed"),
    "workspace.resumed": gettext_lazy("Resumed"),
    "workspace.retried": gettext_lazy("Tried to create it again"),
    "workspace.revised": gettext_lazy("Updated from its source"),
    "workspace.revision_refused": gettext_lazy("Update from its source refused"),
    "workspace.root_changed": gettext_lazy("Image or set-up was built again"),
    "workspace.stopped": gettext_lazy("Stopped"),
    "workspace.thawed": gettext_lazy("Resumed after a full disk"),
    "workspace.trashed": gettext_lazy("Moved to the trash"),
    "workspace.unreachable": gettext_lazy("Unreachable"),
    "workspace.untrashed": gettext_lazy("Restored from trash"),
    "workspace.warned": gettext_lazy("Unused; will move to the trash"),
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
