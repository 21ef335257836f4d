"""An attestation of the decision about an action: an in-toto statement, made from the log and signed with its key."""

from datetime import datetime

from approvals.models import Action
from dashboard.database import clock
from dashboard.keys import log_key
from dashboard.models import Event
from dashboard.problems import conflict
from handrail_verify import attestation
from handrail_verify.checkpoints import BadEvent
from handrail_verify.decisions import ALLOWED, APPROVED, ENDS_ANSWER, VOTE, Decisions
from handrail_verify.log import chain_hash

REOPENED = "action.reopened"
CANCELLED, EXPIRED = "action.cancelled", "action.expired"
DENIALS = {"action.denied", "action.sent_back"}
VERDICTS = {ALLOWED: "approve", APPROVED: "approve"} | dict.fromkeys(DENIALS, "deny")
ENDS = ENDS_ANSWER | {CANCELLED, EXPIRED}


def of_action(action: Action) -> dict:
    """Return the signed envelope. Problem 409: undecided; log_differs: the log contradicts itself or the action."""
    about = {"team": action.team_id, "subject_type": "action", "subject_id": action.pk}
    events = list(Event.objects.filter(**about).order_by("seq"))
    _check(events)
    deciding = _deciding(events)
    if deciding is None:
        raise conflict("Nobody has decided this action, or its answer no longer holds.", code="undecided")
    if deciding.data["digest"] != action.digest:
        raise conflict("The log says that other bytes were decided, so this is not signed.", code="log_differs")
    statement = {
        "_type": attestation.STATEMENT,
        "subject": [{"name": f"{action.team.slug}/A-{action.number}", "digest": {"sha256": action.digest}}],
        "predicateType": attestation.DECISION,
        "predicate": _predicate(action, events, deciding),
    }
    return attestation.signed(statement, log_key.private_key())


def _check(events: list[Event]):
    """Raise Problem 409 unless each event is as it was hashed, and they do not contradict each other."""
    decisions = Decisions()
    try:
        for event in events:
            if chain_hash(event.as_export()) != event.hash:
                raise BadEvent(f"Event {event.seq} was changed.")
            decisions.follow(event.as_export())
    except BadEvent as error:
        raise conflict(f"The log does not verify, so this is not signed: {error}", code="log_differs") from None


def _deciding(events: list[Event]) -> Event | None:
    """Return the event that decided the action, if its answer still holds."""
    found = None
    for event in events:
        if event.verb in VERDICTS:
            found = event
        elif event.verb in ENDS:
            found = None
    return found


def _predicate(action: Action, events: list[Event], deciding: Event) -> dict:
    """Return what docs/schemas/decision.schema.json describes."""
    digest = deciding.data["digest"]
    quorum = deciding.data.get("quorum")
    policy = {"number": action.policy.number, "sha256": action.policy.sha256} if action.policy_id else None
    return {
        "action": {
            "id": str(action.pk),
            "number": action.number,
            "agent": action.agent.name,
            "workspace": action.workspace.key if action.workspace else None,
            "tool": action.tool,
            "tier": action.tier,
        },
        "verdict": VERDICTS[deciding.verb],
        "decidedAt": _at(deciding.at),
        "decidedBy": _actor(deciding),
        "quorum": quorum if isinstance(quorum, int) else None,
        "role": deciding.data.get("role"),
        "people": [_vote(event) for event in _votes(events) if event.data.get("digest") == digest],
        "policy": policy,
        "log": {
            "team": str(action.team_id),
            "events": [{"seq": event.seq, "verb": event.verb, "hash": event.hash} for event in events],
        },
        "attestedAt": _at(clock.now()),
    }


def _votes(events: list[Event]) -> list[Event]:
    """Return the last answer of each person, without those that were taken back, oldest first."""
    found = {}
    for event in events:
        if event.verb in {VOTE, APPROVED, *DENIALS} and event.actor_type == "person":
            found.pop(event.actor_id, None)
            found[event.actor_id] = event
        elif event.verb == REOPENED:
            found.pop(event.actor_id, None)
    return list(found.values())


def _vote(event: Event) -> dict:
    verdict = "deny" if event.verb in DENIALS else "approve"
    shown = {"rendered": event.data["rendered_digest"]} if "rendered_digest" in event.data else {}
    about = {"verdict": verdict, "at": _at(event.at), "seq": event.seq, "passkey": "passkey" in event.data}
    return _actor(event) | about | shown


def _actor(event: Event) -> dict:
    return {"type": event.actor_type, "id": event.actor_id, "label": event.actor_label}


def _at(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")
