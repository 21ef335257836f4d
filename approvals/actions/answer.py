"""A person's answer to an action, as it came from a page, the API, a notification or comments on lines."""

from dataclasses import dataclass

from approvals.actions.solo import SoloRequest

APPROVE, DENY, EDIT = "approve", "deny", "edit"


@dataclass(frozen=True)
class Answer:
    """What a person says to the revision with this digest, which that person saw."""

    verdict: str
    digest: str
    comment: str = ""
    arguments: dict | None = None  # of an edit: all of them
    send_back: bool = False  # a denial whose comment is what the agent should do before it makes the call again
    alone: SoloRequest | None = None  # by the only person who may approve a critical action (solo.py), never by the API
    unheld: bool = False  # to run without an envelope; if several people must approve, all of them must choose that
    apply: bool = False  # the result of the rehearsal instead of a run
    rehearsal: object | None = None  # the id of the rehearsal that the person saw, if known
    rendered: dict | None = None  # what the page showed of the call, as it says itself (handrail_verify.card)
    passkey: dict | None = None  # what the person's passkey said, which some approvals take: {challenge, credential}
