"""What the events of a log say of each action, against each other: nothing ran that was not approved as it ran."""

import json
from dataclasses import dataclass, field

from handrail_verify import card
from handrail_verify.checkpoints import BadEvent

ALLOWED, APPROVED, VOTE, USED = "action.allowed", "action.approved", "action.vote", "action.consumed"
ENDS_ANSWER = {"action.reopened", "action.edited", "action.changed", "action.revoked", "action.waiting"}


@dataclass
class _Answer:
    """What was answered to one action so far: the event and digest of the answer, and who voted for which digest."""

    seq: int = 0
    digest: str = ""
    voters: dict[str, str] = field(default_factory=dict)  # person: digest


class Decisions:
    """Follows the decisions of a whole log, from its first event on; `follow` raises BadEvent for the first bad one."""

    def __init__(self):
        self._open: dict[str, _Answer] = {}

    def follow(self, event: dict):
        """Take the next event of the log, in their order. Raise BadEvent if it contradicts earlier ones."""
        verb, data, subject = event["verb"], event["data"], event["subject"]
        if not verb.startswith("action.") or not isinstance(data, dict) or not isinstance(subject, dict):
            return
        name, digest = str(subject.get("id")), data.get("digest")
        if not isinstance(digest, str):
            if verb == USED:
                raise BadEvent(f"Event {event['seq']}: {_action(event)} ran, and no digest says which bytes.")
            return  # an entry of another kind about an action
        answer = self._open.setdefault(name, _Answer())
        if verb == VOTE:
            self._vote(event, answer, digest)
        elif verb == APPROVED:
            self._approve(event, answer, digest)
        elif verb == ALLOWED:
            answer.seq, answer.digest = event["seq"], digest
        elif verb in ENDS_ANSWER:
            answer.seq, answer.digest = 0, ""
        elif verb == USED:
            self._use(event, answer, digest)
            del self._open[name]

    def _vote(self, event: dict, answer: _Answer, digest: str):
        if _type(event) != "person":
            raise BadEvent(f"Event {event['seq']}: {_action(event)} was approved by {_who(event)}, who is no person.")
        answer.voters[str(event["actor"].get("id"))] = digest

    def _approve(self, event: dict, answer: _Answer, digest: str):
        self._vote(event, answer, digest)
        _check_rendered(event, digest)
        data, quorum = event["data"], event["data"].get("quorum")
        given = sum(voted == digest for voted in answer.voters.values())
        if isinstance(quorum, int) and given < quorum and not data.get("solo"):
            raise BadEvent(
                f"Event {event['seq']}: {_action(event)} needed {quorum} people, and {given} approved these bytes."
            )
        answer.seq, answer.digest = event["seq"], digest

    def _use(self, event: dict, answer: _Answer, digest: str):
        if not answer.seq:
            raise BadEvent(f"Event {event['seq']}: {_action(event)} ran, and no event before it approved it.")
        if answer.digest != digest:
            raise BadEvent(
                f"Event {event['seq']}: {_action(event)} ran other bytes than event {answer.seq} approved: "
                f"{digest[:16]}… instead of {answer.digest[:16]}…"
            )


def _check_rendered(event: dict, digest: str):
    """Raise BadEvent if what the approver's page said of itself was changed, or is of another call."""
    statement = event["data"].get("rendered")
    if statement is None:
        return
    known = card.read(json.dumps(statement))
    if known is None or card.digest_of(known) != event["data"].get("rendered_digest"):
        raise BadEvent(f"Event {event['seq']}: what the page of {_action(event)} showed does not fit its digest.")
    if known["call"] != digest:
        raise BadEvent(f"Event {event['seq']}: {_action(event)} was approved on a page that showed another call.")


def _type(event: dict) -> str:
    actor = event["actor"]
    return str(actor.get("type")) if isinstance(actor, dict) else ""


def _who(event: dict) -> str:
    actor = event["actor"]
    return str(actor.get("label"))[:60] if isinstance(actor, dict) else "?"


def _action(event: dict) -> str:
    return f"A-{str(event['data'].get('number'))[:20]}"
