"""The tasks that people give, and the attempts at them: made, judged by their workspaces, chosen, cancelled."""

from approvals.agent_runs.attempts.ending import bring_back, cancel, choose, end, merged, throw_away
from approvals.agent_runs.attempts.making import find, make, record, require

__all__ = ["bring_back", "cancel", "choose", "end", "find", "make", "merged", "record", "require", "throw_away"]
