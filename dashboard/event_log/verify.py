"""Verify that a team's log is complete and unchanged, incrementally, while its page is shown."""

import time
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.core.cache import cache

from dashboard.database import clock
from dashboard.event_log import checkpoints
from dashboard.models import Event, LogCheckpoint, Team
from handrail_verify.log import GENESIS, chain_hash

BATCH_SIZE = 250  # events read at a time
RENDER_SECONDS = 0.02  # spent on all teams while the page is rendered; the open page requests the rest
REVERIFY_AFTER = timedelta(hours=1)  # after which everything is verified again


@dataclass
class Proof:
    """`holds` up to event `seq`; if not, `seq` is the first event that is wrong or missing."""

    team: Team
    seq: int
    head: str
    at: datetime
    begun: datetime
    holds: bool = True

    @property
    def signed(self) -> LogCheckpoint | None:
        """Return the newest signed checkpoint."""
        return checkpoints.newest(self.team)

    @property
    def is_whole(self) -> bool:
        """Return True if the log is verified up to the team's newest event."""
        return self.holds and self.seq == self.team.event_seq


def verify_in_time(team: Team, seconds: float = RENDER_SECONDS) -> Proof:
    """Continue from where the last check ended, for about this many seconds or to the end of the log."""
    key, now, until = f"proof:{team.pk}", clock.now(), time.monotonic() + seconds
    team.refresh_from_db(fields=["event_seq", "event_head"])
    proof = cache.get(key)
    if proof is None or now - proof.begun > REVERIFY_AFTER or not proof.holds:
        proof = Proof(team, 0, GENESIS, now, now)
    proof.team, proof.at = team, now
    _read_on(proof)
    while proof.holds and proof.seq != team.event_seq and time.monotonic() < until:
        _read_on(proof)
    if proof.seq == team.event_seq and proof.head != team.event_head:
        proof.holds = False
    if proof.holds:
        cache.set(key, proof, 3600)
    return proof


def _read_on(proof: Proof):
    """Verify the next BATCH_SIZE events; a chain that ends before the team's count is broken after its end."""
    events = Event.objects.filter(team=proof.team, seq__gt=proof.seq, seq__lte=proof.team.event_seq)
    unread = list(events.order_by("seq")[:BATCH_SIZE])
    for event in unread:
        if event.seq != proof.seq + 1 or event.prev != proof.head or chain_hash(event.as_export()) != event.hash:
            proof.seq, proof.holds = proof.seq + 1, False
            return
        proof.seq, proof.head = event.seq, event.hash
    if len(unread) < BATCH_SIZE and proof.seq != proof.team.event_seq:
        proof.seq, proof.holds = proof.seq + 1, False
