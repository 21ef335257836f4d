"""The state of a workspace as pages show it: the stored state, or a derived one such as frozen or unreachable."""

from django.utils.translation import gettext

from workspaces.host import place
from workspaces.models import State, StateCode

# What exclusive operations that change the state are called while they are under way, by kind.
MOVES = {
    "pause": "pausing",
    "stop": "stopping",
    "ended": "stopping",
    "resume": "resuming",
    "restore_checkpoint": "resuming",
    "rebuild": "rebuilding",
    "restore": "restoring",
    "revise": "updating",
    "maintain": "maintaining",
    "put_away": "archiving",
    "trash": "deleting",
    "move": "moving",
    "arrive": "moving",
    "leave": "moving",
    "take_lead": "moving",
}
OUT_OF_REACH = {
    StateCode.UNREACHABLE: "unreachable",
    StateCode.BACKEND_LOST: "backend_lost",
    StateCode.HELD_UP: "held_up",
}


def shown_state(workspace) -> str:
    """Return the state for `state_words` of handrail. Load it by `pages.header.with_display_columns`."""
    if workspace.trashed_at:
        return "deleted"
    if code := out_of_reach(workspace):
        return OUT_OF_REACH[code]
    if moves := getattr(workspace, "moves", None):
        return MOVES[moves]
    if frozen_words(workspace):
        return "frozen"
    return "working" if workspace.state == State.READY and workspace.running else workspace.state


def frozen_words(workspace) -> str:
    """Return why the programs of a workspace that is up are frozen: its limit or the host's disk is full; else ""."""
    is_up = workspace.state == State.READY and not workspace.trashed_at
    return workspace.vitals.get("frozen", "") if is_up else ""


def out_of_reach(workspace) -> str:
    """Return the StateCode of a workspace that cannot be used as usual now; "" for any other.

    It is on a host that does not answer, or it is up and its driver, or somebody else, keeps it from being used.
    """
    if not workspace.trashed_at and place.is_away(workspace):
        return StateCode.UNREACHABLE
    is_up = workspace.state == State.READY and not workspace.trashed_at
    return workspace.reason_code if is_up and workspace.reason_code in OUT_OF_REACH else ""


def what_to_do(workspace) -> str:
    """Return the last probe's advice on how to bring its driver back; "" if its driver works."""
    probes = workspace.runner.capabilities if workspace.runner is not None else {}
    probe = probes.get(workspace.environment.driver, {})
    return "" if probe.get("available", True) else probe.get("what_to_do", "")


def before_a_call(workspace) -> str:
    """Return the reason why Handrail can't run an approved call in the workspace now; "" if it can."""
    if workspace.trashed_at:
        return gettext("%(key)s is in the trash.") % {"key": workspace.key}
    if out_of_reach(workspace):
        reason = place.unreachable(workspace) or workspace.reason
        return gettext("%(key)s can't be used now. %(reason)s") % {"key": workspace.key, "reason": reason}
    if frozen := frozen_words(workspace):
        return frozen
    if workspace.state in (State.CREATING, State.SETTING_UP, State.READY):
        return ""
    words = {"key": workspace.key, "reason": workspace.reason.partition("\n")[0]}
    if workspace.state == State.PAUSED:
        return gettext("%(key)s is paused; approving resumes it.") % words
    if workspace.state == State.STOPPED:
        return gettext("%(key)s is stopped; resume it, then approve. %(reason)s") % words
    if workspace.state == State.ARCHIVED:
        return gettext("%(key)s is archived; resume it, then approve.") % words
    return gettext("%(key)s failed, so nothing can run in it. %(reason)s") % words
