"""The servers that the approval of a call opens to its program, beside those of the environment."""

from approvals.actions.approved_envelope import approved_envelope
from approvals.evaluation.judge import current
from approvals.models import Action, Tier
from workspaces.envelope.envelope import NETWORK_WORDS


def hosts_of(action: Action, envelope: dict | None) -> list[str]:
    """Return the servers, as host:port, that an action's program may reach beside those of the environment.

    Without an envelope they are those that the card of an approved call named.
    """
    is_asked = action.tier not in (Tier.LOW, Tier.MEDIUM) or bool(action.grant_id)
    if envelope is None:
        envelope = approved_envelope(current(action).commands) if is_asked and action.tool == "Bash" else {}
    return [entry for entry in envelope.get("network", ()) if entry not in NETWORK_WORDS]
