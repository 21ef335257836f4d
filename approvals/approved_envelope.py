"""The envelope of a call that a person approved: the medium one, with the paths and hosts that the card named."""

import posixpath

from workspaces.envelope.envelope import MEDIUM, Envelope

HOME = "/home/agent"
ROOT = "/workspace"


def approved_envelope(commands: list[dict]) -> dict:
    """Return it as JSON; `commands` are the entries of the verdict that the card showed (approvals.policy)."""
    found = MEDIUM
    for step in commands:
        for more in _named(step):
            found = found.wider(more)
    return found.to_json()


def _named(step: dict):
    """Yield an envelope for each target of one sub-command; what is no plain path or host adds nothing."""
    for target in step.get("targets") or ():
        path = posixpath.normpath(posixpath.join(step.get("cwd") or ROOT, target.replace("~", HOME, 1)))
        try:
            if step["what"] == "network":
                yield Envelope(network=(target if ":" in target else f"{target}:443",))
            elif step["what"] in ("write", "delete"):
                yield Envelope(read=(path,), write=(path,))
            elif step["what"] == "read":
                yield Envelope(read=(path,))
        except ValueError:
            continue
