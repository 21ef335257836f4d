"""A log as a trace that AgentAck 0.6 checks: what was proposed, shown, decided, executed and blocked.

It is a second form of the same events, made from them and stored nowhere. It holds digests of calls, not arguments.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256

from handrail_verify.decisions import ALLOWED, APPROVED, USED

VERSION = 2  # of the form of AgentAck's traces
SUBMITTED, WAITING, DIFFERED = "action.submitted", "action.waiting", "action.ran_differently"
DENIALS = {"action.denied", "action.sent_back"}
UNUSED = {"action.expired", "action.cancelled"}
EDITED = "action.edited"
AGAIN = {EDITED, "action.changed", "action.reopened"}  # other bytes are asked for, or the answer was taken back
BY_PEOPLE, BY_POLICY = "ask", "policy"  # the operation of a call: who decides it


def trace(events: Iterable[dict]) -> Iterator[dict]:
    """Yield the lines of a trace for a team's exported events, from event 1 on; none if there are no events."""
    actions, event = {}, None
    for event in events:
        subject, data = event["subject"], event["data"]
        if not event["verb"].startswith("action.") or not isinstance(subject, dict) or not isinstance(data, dict):
            continue
        if isinstance(data.get("digest"), str):  # else an entry of another kind about an action
            name = str(subject.get("id"))
            yield from actions.setdefault(name, _Action(name)).follow(event)
    if event is None:
        return
    for action in actions.values():
        yield from action.propose(event, BY_PEOPLE)
    yield {"schema_version": VERSION, "type": "session_end", "timestamp": event["at"], "session_id": event["team"]}


class _Action:
    """One action so far, in rounds: another one begins when its bytes change or its answer is taken back.

    AgentAck sees an action for each round, all with one intent, so that it finds a denied call that runs without a
    later approval.
    """

    def __init__(self, name: str):
        self.name, self.round, self.tool = name, 0, "unknown"
        self._begin({})

    def _begin(self, event: dict):
        """Begin a round. It is proposed once a later event says who decides it."""
        self.round += 1
        self.asked = event
        self.operation = ""
        self.is_shown = self.is_decided = self.is_over = False

    def follow(self, event: dict) -> Iterator[dict]:
        """Yield what the next event of the action says."""
        verb = event["verb"]
        if verb == SUBMITTED:
            self.asked, self.tool = event, str(event["data"].get("tool") or "").strip() or self.tool
        elif verb == WAITING:
            yield from self._show(event)
        elif verb == ALLOWED:
            yield from self.propose(event, BY_POLICY)
        elif verb == APPROVED:
            yield from self._approve(event)
        elif verb in DENIALS:
            yield from self._deny(event)
        elif verb in UNUSED:
            yield from self._block(event)
        elif verb in AGAIN:
            yield from self._ask_again(event)
        elif verb == USED:
            yield from self._execute(event, event["data"]["digest"])
        elif verb == DIFFERED:
            self.operation = BY_PEOPLE  # whoever decided the call has not decided this one
            yield from self._execute(event, sha256(str(event["data"].get("ran")).encode()).hexdigest())

    def propose(self, event: dict, operation: str) -> Iterator[dict]:
        """Yield the proposal of this round, unless it was yielded before."""
        if not self.operation:
            self.operation, asked = operation, self.asked or event
            yield self._line(asked, "action_proposed", action=self._call(asked["data"].get("digest", "")))

    def _show(self, event: dict) -> Iterator[dict]:
        yield from self.propose(event, BY_PEOPLE)
        if not self.is_shown:
            self.is_shown = True
            yield self._line(
                event, "approval_requested", **self._approval(), action=self._call(event["data"]["digest"])
            )

    def _approve(self, event: dict) -> Iterator[dict]:
        """Yield the approval, if a person gave it."""
        yield from self.propose(event, BY_PEOPLE)
        actor = event["actor"]
        if isinstance(actor, dict) and actor.get("type") == "person":
            self.is_decided = True
            yield self._line(event, "approval_decision", approval_id=self._id(), decision="allow")

    def _deny(self, event: dict) -> Iterator[dict]:
        yield from self.propose(event, BY_POLICY)
        if self.is_shown:
            self.is_decided = True
            yield self._line(event, "approval_decision", approval_id=self._id(), decision="deny")
        yield from self._block(event)

    def _ask_again(self, event: dict) -> Iterator[dict]:
        """End the round and begin the next one. Who edits a call does not approve it as it was asked for."""
        if event["verb"] == EDITED and not self.is_decided:
            yield from self._deny(event)
        yield from self._block(event)
        self._begin(event)
        yield from self._show(event)

    def _block(self, event: dict) -> Iterator[dict]:
        yield from self.propose(event, BY_PEOPLE)
        if not self.is_over:
            self.is_over = True
            yield self._line(event, "action_blocked", **self._approval(), reason=event["verb"])

    def _execute(self, event: dict, digest: str) -> Iterator[dict]:
        yield from self.propose(event, BY_PEOPLE)
        self.is_over = True
        yield self._line(event, "action_executed", **self._approval(), action=self._call(digest))

    def _id(self) -> str:
        return f"{self.name}/{self.round}"

    def _approval(self) -> dict:
        return {"approval_id": self._id()} if self.is_shown else {}

    def _call(self, digest: str) -> dict:
        return {"tool": self.tool, "operation": self.operation, "parameters": {"sha256": digest}}

    def _line(self, event: dict, kind: str, **more) -> dict:
        about = {"schema_version": VERSION, "type": kind, "timestamp": event["at"], "session_id": event["team"]}
        return about | {"action_id": self._id(), "intent_id": self.name} | more
