"""Watch live trees on this host, so that a snapshot looks only at what may have changed.

`Watched` is one tree, `fanotify.Kernel` the source of events of one file system. `docs/store.md` states the rule for
each kind of writer.
"""

from .watched import DEFAULT_PROOF_EVERY, Hints, Watched

__all__ = ["DEFAULT_PROOF_EVERY", "Hints", "Watched"]
