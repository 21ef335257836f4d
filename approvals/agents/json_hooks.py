"""Hooks in the JSON settings of an agent: {"hooks": {event: [group]}}, added and removed beside those of the user.

A group has its hooks in a list, or is one hook.
"""


def add(settings: dict, added: dict[str, dict]):
    """Add one group for each event."""
    hooks = settings.setdefault("hooks", {})
    for event, group in added.items():
        hooks.setdefault(event, []).append(group)


def remove(settings: dict, ours: str):
    """Remove the hooks with `ours` in their command, and groups, events and lists that are empty without them."""
    hooks = settings.get("hooks")
    for event, groups in list(hooks.items()) if isinstance(hooks, dict) else ():
        hooks[event] = [kept for group in _listed(groups) if (kept := _without(group, ours)) is not None]
        if not hooks[event]:
            del hooks[event]
    if not settings.get("hooks"):
        settings.pop("hooks", None)


def holds(settings: dict, event: str, group: dict) -> bool:
    """Return whether this group is among the event's."""
    hooks = settings.get("hooks")
    return isinstance(hooks, dict) and group in _listed(hooks.get(event))


def _listed(groups) -> list:
    return groups if isinstance(groups, list) else []


def _without(group, ours: str):
    """Return the group without our hooks; None when none are left. A malformed group stays as it is."""
    if _is_ours(group, ours):
        return None
    if not isinstance(group, dict) or not isinstance(group.get("hooks"), list):
        return group
    kept = [hook for hook in group["hooks"] if not _is_ours(hook, ours)]
    return group | {"hooks": kept} if kept or not group["hooks"] else None


def _is_ours(hook, ours: str) -> bool:
    return isinstance(hook, dict) and ours in str(hook.get("command", ""))
