"""The envelope of a call that a person approved: the medium one, with the files and servers that the card named."""

import fnmatch
import posixpath

from approvals.actions.decisions import is_unheld
from approvals.evaluation.judge import can_be_held, current
from approvals.models import Action, Tier
from dashboard.problems import conflict
from workspaces.envelope.envelope import MAX_ENTRIES, MEDIUM, Envelope


def envelope_of(action: Action) -> dict | None:
    """Return what the kernel holds an action's program to, as JSON; None where nothing does.

    It is that of the verdict, if the policy let the call run. What a person approved gets the medium one, with the
    paths and hosts that its card named, or none if each approval said so.
    """
    if not can_be_held(action.mode, action.tool, action.workspace) or is_unheld(action):
        return None
    if action.envelope is not None or (action.tier in (Tier.LOW, Tier.MEDIUM) and not action.grant_id):
        return action.envelope  # without one, a rule lets the call leave every envelope
    return approved_envelope(current(action).commands)


def approved_envelope(commands: list[dict]) -> dict:
    """Return it as JSON; `commands` are the entries of the verdict that the card showed (approvals.policy).

    Problem 409 if it names more than an envelope holds.
    """
    found = [more for step in commands for more in _opened(step)]
    envelope = MEDIUM
    try:
        for more in dict.fromkeys(found):
            envelope = envelope.wider(more)
    except ValueError:
        raise conflict(f"It names more than {MAX_ENTRIES} files or hosts, too many to hold it to. Split it.") from None
    return envelope.to_json()


def _opened(step: dict):
    """Yield an envelope for each entry of one sub-command; what is no plain path, such as the root, opens nothing."""
    for name, entries in (step.get("opens") or {}).items():
        for entry in entries:
            try:
                yield Envelope(**{name: (entry,)})
            except ValueError:
                continue


def refused_although_opened(envelope: dict, blocked: list[dict], cwd: str) -> list[dict]:
    """Return the entries of `blocked` that the envelope opened by name: then the call did not do what was approved."""
    paths = [path for name in ("replaces", "removes") for path in envelope.get(name, ())]
    return [
        entry
        for entry in blocked
        if entry["what"] in envelope["network"] or _names(paths, posixpath.normpath(posixpath.join(cwd, entry["what"])))
    ]


def _names(paths: list[str], path: str) -> bool:
    """Return whether a path is among some, of which `FOLDER/**` and `FOLDER/**/NAME` mean what is below a folder."""
    for each in paths:
        top, below, name = each.partition("/**")
        if path == each or (below and path.startswith(f"{top}/") and _fits(path.rsplit("/", 1)[-1], name.lstrip("/"))):
            return True
    return False


def _fits(name: str, pattern: str) -> bool:
    return not pattern or fnmatch.fnmatchcase(name, pattern)
