"""Periodic tasks of approvals, called by the queue and the runner. They may run at any time, twice, or late."""

from approvals import gate


def sweep() -> int:
    """End the actions that are due; return how many changed."""
    return gate.sweep()
