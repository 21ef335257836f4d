"""Is a team's log complete and unchanged? Checked where it is shown, from where the last check ended."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.core.cache import cache

from dashboard import clock
from dashboard.chain import GENESIS, chain_hash
from dashboard.models import Event, Team

AT_ONCE = 5000  # events that one look at the page checks
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


def prove(team: Team) -> Proof:
    key, now = f"proof:{team.pk}", clock.now()
    team.refresh_from_db(fields=["event_seq", "event_head"])
    proof = cache.get(key)
    if proof is None or now - proof.begun > AGAIN or not proof.holds:
        proof = Proof(team, 0, GENESIS, now, now)
    proof.team, proof.at = team, now
    events = Event.objects.filter(team=team, seq__gt=proof.seq, seq__lte=team.event_seq)
    unread = list(events.order_by("seq")[:AT_ONCE])
    for event in unread:
        if event.seq != proof.seq + 1 or event.prev != proof.head or chain_hash(event.as_export()) != event.hash:
            proof.seq, proof.holds = proof.seq + 1, False
            return proof
        proof.seq, proof.head = event.seq, event.hash
    if len(unread) < AT_ONCE and (proof.seq, proof.head) != (team.event_seq, team.event_head):
        # Nothing more to read, and yet the team has counted further.
        proof.seq, proof.holds = proof.seq + 1, False
        return proof
    cache.set(key, proof, 3600)
    return proof
