"""Replays that go on to their end, a step for each look of a page or a program at them."""

import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from approvals.reports.policy_changes.effect import Replay

MAX_KEPT = 8


@dataclass
class Kept:
    """A replay under a key that nobody guesses. `shadowed`: entries for rules that never decide (workers.check)."""

    replay: Replay
    key: str
    shadowed: list = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def advance(self, seconds: float):
        """Let it go on for this long, or to its end. Two looks at once share the work of one."""
        with self.lock:
            self.replay.advance(seconds)


_kept: OrderedDict[str, Kept] = OrderedDict()
_lock = threading.Lock()


def keep(replay: Replay, shadowed: list = ()) -> Kept:
    """Keep a replay, so that it can go on; the one that nobody looked at for longest is forgotten."""
    kept = Kept(replay, secrets.token_urlsafe(16), list(shadowed))
    with _lock:
        _kept[kept.key] = kept
        while len(_kept) > MAX_KEPT:
            _kept.popitem(last=False)
    return kept


def find(key: str, teams) -> Kept | None:
    """Return the replay with this key if it is of one of these teams (ids)."""
    with _lock:
        kept = _kept.get(key)
        if kept is None or kept.replay.scope.team.pk not in teams:
            return None
        _kept.move_to_end(key)
        return kept
