"""Questions at the desk for the pending requests of an AAIS authority."""

import hashlib
import logging
import re
import threading
from contextlib import suppress
from datetime import UTC, datetime

from aais.core import ApprovalError
from aais.liveness import Liveness

from handrail_client import json_text
from handrail_client.actions import LONGEST, Action, bounded
from handrail_client.desk import Handrail
from handrail_client.errors import HandrailError, NotAllowed, Refused

logger = logging.getLogger("handrail_client")
REASONS = "handrail.reasons"  # the authority's extension: {request id: why it was not approved}
EDITED = "handrail.edited"  # {JSON of an edited call: id of its approved action}
MAX_KEPT = 200  # of each
UNREADABLE = 422  # the desk can't take the call as it is
OTHER_BODY = "idempotency_conflict"  # the desk has a question with this key whose words differ


class Presenter:
    """Asks the desk about each pending request of an authority, and gives the answers to it.

    `tools` maps names of actions to those that the policy knows: {"shell.exec": "Bash"}. A request is approved with the
    scope "once", so one that offers no such choice is left to others, as is one whose process has ended. Without an
    answer it stays pending until its `expires_at`. After a restart the same questions are found again. If a person
    edits a call, the request is denied, `reason` names the edited call, and a request for exactly that one is approved.
    What is asked and how it ends is posted as messages of the request's session (`origin.session_id`).
    As a context manager it works in a thread; `look` does one round.
    """

    def __init__(self, authority, desk: Handrail, *, tools: dict[str, str] | None = None, pause: float = 2):
        self.authority, self.desk, self.tools, self.pause = authority, desk, tools or {}, pause
        self._asked: dict[str, Action] = {}  # by the request's id
        self._used: dict[str, tuple[Action, dict]] = {}  # approved and used here, with their requests
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="handrail-aais", daemon=True)

    def __enter__(self) -> "Presenter":
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()

    def reason(self, request_id: str) -> str:
        """Return why a request was not approved, for the model to read; "" if nobody said why."""
        return self.authority.get_extension(REASONS, {}).get(request_id, "")

    def report(self, request_id: str, succeeded: bool, note: str = ""):
        """Say how the action of a request that was approved here ended."""
        action, request = self._used.pop(request_id, (None, {}))
        if action:
            self.desk.report_quietly(action, succeeded, note)
            self._post_result(request, succeeded, note)

    def look(self):
        """Ask about new requests, and resolve those that are decided. HandrailError, ApprovalError."""
        pending = {each["request"]["id"]: each["request"] for each in self.authority.pending_requests()}
        for request_id in [each for each in self._asked if each not in pending]:
            self._withdraw(request_id)
        for request in pending.values():
            try:
                self._take(request)
            except Refused as refused:
                if refused.status != UNREADABLE:
                    raise
                self._resolve(request, "deny", None, str(refused))

    def _work(self):
        while not self._ended.wait(self.pause):
            try:
                self.look()
            except (HandrailError, ApprovalError) as error:  # the requests stay pending
                logger.warning("The requests of %s wait: %s", self.authority.stream, error)

    def _take(self, request: dict):
        request_id = request["id"]
        if ("approve", "once") not in {(each["decision"], each["scope"]) for each in request["choices"]}:
            return
        if self.authority.owner_liveness(request_id) is Liveness.DEAD:
            return
        if _seconds(request, since=datetime.now(UTC)) <= 0:
            self._resolve(request, "deny", None, "Nobody answered in time. This is not a denial: ask again.")
            return
        asked = self._asked.get(request_id)
        if asked is None or asked.status == "expired":
            asked = self._ask(request, again=asked)
        elif asked.status == "pending":
            asked = self.desk.get(asked.id)
        self._asked[request_id] = asked
        if asked.status not in ("pending", "expired"):
            self._answer(request, asked)

    def _ask(self, request: dict, *, again: Action | None) -> Action:
        asked = self._edited(request["action"]) or self._question(request, again)
        self._post(request, "assistant", _words(request), id=bounded(f"{self.authority.stream}/{request['id']}"))
        about = {"tool": bounded(self._tool(request["action"])), "call_id": request["id"]}
        self._post(request, "assistant", dict(request["action"]["arguments"]), kind="call", **about)
        return asked

    def _edited(self, action: dict) -> Action | None:
        """Return the approval of a call that a person edited into this one."""
        if edited := self.authority.get_extension(EDITED, {}).get(_call(action["name"], action["arguments"])):
            approved = self.desk.get(edited)
            if (approved.status, approved.tool) == ("approved", self._tool(action)):
                return approved
        return None

    def _question(self, request: dict, again: Action | None) -> Action:
        action = request["action"]
        # A question that has expired is asked once more, not found again.
        key = f"{self.authority.stream}/{request['id']}" + (f"/{again.id}" if again else "")
        call = self._tool(action), dict(action["arguments"])
        about = {
            "key": hashlib.sha256(key.encode()).hexdigest(),
            "reasoning": _words(request),
            "session": request["origin"]["session_id"],
            "cwd": action.get("working_directory"),
            "expires_in_s": int(min(max(1, _seconds(request, since=_time(request["created_at"]))), LONGEST)),
        }
        try:
            return self.desk.ask(*call, call_id=request["id"], **about)
        except Refused as refused:
            if refused.code != OTHER_BODY:
                raise
            return self.desk.ask(*call, **about)  # as a release asked that named no call, before it was replaced

    def _post_result(self, request: dict, succeeded: bool, words: str):
        tool = bounded(self._tool(request["action"]))
        self._post(request, "tool", words, kind="result", ok=succeeded, tool=tool, call_id=request["id"])

    def _post(self, request: dict, role: str, content: str | dict, **about):
        """Add a message to the request's session, once; that the desk does not keep it changes nothing else."""
        try:
            self.desk.sessions.post(request["origin"]["session_id"], role, content, **about)
        except (HandrailError, ValueError, TypeError) as error:  # a content that is no JSON, such as NaN
            logger.warning("A message of the session of %s is not kept: %s", request["id"], error)

    def _tool(self, action: dict) -> str:
        return self.tools.get(action["name"], action["name"])

    def _answer(self, request: dict, asked: Action):
        action = request["action"]
        approved = _call(action["name"], asked.arguments)
        if request["id"] in self._used:
            self._resolve(request, "approve", asked)
        elif asked.status == "approved" and approved == _call(action["name"], action["arguments"]):
            # Used before the authority hears of it: if this process ends in between, the request is denied then.
            try:
                self._used[request["id"]] = self.desk.use(asked), request
            except NotAllowed as error:
                self._resolve(request, "deny", asked, str(error))
            else:
                self._resolve(request, "approve", asked)
        elif asked.status == "approved":
            words = f"{asked.comment} Make this call instead, which needs no further approval: {approved}".strip()
            self._resolve(request, "deny", asked, words, edited={approved: asked.id})
        else:
            self._resolve(request, "cancel" if asked.status == "cancelled" else "deny", asked, asked.words)

    def _resolve(self, request: dict, decision: str, asked: Action | None, reason="", edited: dict | None = None):
        with self.authority.transaction() as opened:
            if opened.get_pending(request["id"]) is None:
                return
            about = {"scope": "once", "actor": _actor(asked), "reviewed_digest": request["action_digest"]}
            opened.decide(request["id"], decision=_offered(request, decision), **about)
            for name, more in ((REASONS, {request["id"]: reason} if reason else {}), (EDITED, edited or {})):
                kept = opened.get_extension(name, {}) | more
                opened.set_extension(name, dict(list(kept.items())[-MAX_KEPT:]))
        if decision != "approve":
            self._post_result(request, False, reason)

    def _withdraw(self, request_id: str):
        """Cancel the question of a request that was resolved elsewhere."""
        asked = self._asked.pop(request_id)
        if asked.status == "pending":
            with suppress(HandrailError):
                self.desk.cancel(asked)


def _words(request: dict) -> str:
    """Return why the action is wanted, as the harness tells it."""
    return "\n".join([request["action"]["summary"], *request["risk"]["reasons"]])


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _seconds(request: dict, *, since: datetime) -> float:
    """Return the seconds until the request expires."""
    return (_time(request["expires_at"]) - since).total_seconds() if "expires_at" in request else LONGEST


def _call(name: str, arguments: dict) -> str:
    return json_text.dumps({"name": name, "arguments": arguments}, sort_keys=True, ensure_ascii=False)


def _actor(asked: Action | None) -> dict:
    """Return who decided, as AAIS names them."""
    decision, told = (asked.decision, asked.told) if asked else ({}, {})
    nobody_was_asked = (
        not told.get("votes") if decision.get("verdict") == "approve" else told.get("tier") == "forbidden"
    )
    if not decision or nobody_was_asked:
        return {"id": "handrail", "type": "policy", "authenticated_by": "Handrail"}
    person = str(decision["by"])
    return {"id": _id_of(person), "type": "human", "display_name": person[:200], "authenticated_by": "Handrail"}


def _id_of(person: str) -> str:
    """Return an id with the letters that AAIS allows; with a digest where the name has others, or is too long."""
    name = f"handrail:{person}"
    plain = re.sub(r"[^A-Za-z0-9._:-]", "-", name)
    if plain == name and len(name) <= 200:
        return name
    return f"{plain[:135]}:{hashlib.sha256(person.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _offered(request: dict, decision: str) -> str:
    """Return the decision, or in place of a denial or cancellation the other one if only that is offered."""
    offered = {each["decision"] for each in request["choices"] if each["scope"] == "once"}
    return decision if decision in offered else {"deny": "cancel", "cancel": "deny"}[decision]
