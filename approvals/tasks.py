"""Work on actions that may run at any time, twice, or late: the queue and the runner call it."""

from approvals import gate


def sweep() -> int:
    """End what time or the runner has ended; returns how many actions changed."""
    return gate.sweep()
