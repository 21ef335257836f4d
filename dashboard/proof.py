"""Is a team's log complete and unchanged? Checked where it is shown, from where the last check ended."""

import time
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.core.cache import cache

from dashboard import clock
from dashboard.chain import GENESIS, chain_hash
from dashboard.models import Event, Team

AT_ONCE = 500  # events that are read together
PATIENCE = 0.05  # seconds that a look at the page takes for it; what is left is checked while the page is open
AGAIN = timedelta(hours=1)  # after which everything is read again


@dataclass
class Proof:
    """`holds` up to event `seq`; when it does not, `seq` is the first event that is wrong or missing."""

    team: Team
    seq: int
    head: str
    at: datetime
    begun: datetime
    holds: bool = True

    @property
    def is_whole(self) -> bool:
        return self.holds and self.seq == self.team.event_seq


def prove(team: Team, patience: float = PATIENCE) -> Proof:
    """Go on for about `patience` seconds, or to the end."""
    key, now, until = f"proof:{team.pk}", clock.now(), time.monotonic() + patience
    team.refresh_from_db(fields=["event_seq", "event_head"])
    proof = cache.get(key)
    if proof is None or now - proof.begun > AGAIN or not proof.holds:
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
    """The next AT_ONCE events; a chain that ends before the team's count is broken after its end."""
    events = Event.objects.filter(team=proof.team, seq__gt=proof.seq, seq__lte=proof.team.event_seq)
    unread = events.order_by("seq")[:AT_ONCE]
    before = proof.seq
    for event in unread:
        if event.seq != proof.seq + 1 or event.prev != proof.head or chain_hash(event.as_export()) != event.hash:
            proof.seq, proof.holds = proof.seq + 1, False
            return
        proof.seq, proof.head = event.seq, event.hash
    if before == proof.seq != proof.team.event_seq:
        proof.seq, proof.holds = proof.seq + 1, False
