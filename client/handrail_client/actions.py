"""Ask for permission, wait for the answer as long as it takes, use it once, and report how the call ended."""

import hashlib
import logging
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from handrail_client.errors import AlreadyUsed, Denied, NotAllowed, NotAnswered, NotNow, Refused, Unreachable
from handrail_client.http import Http

logger = logging.getLogger("handrail_client")

STATUSES = (
    "pending", "approved", "denied", "expired", "cancelled", "running", "succeeded", "failed", "uncertain",
)  # fmt: skip
OPEN = ("pending", "approved", "running")
LONGEST = 7 * 24 * 3600  # seconds that the desk keeps a question open, at most
GRACE = 15  # seconds to look for the desk before the first answer; after it there is no limit
LONGEST_NOT_NOW = 600  # seconds to ask a desk again that is there, and says that it can't answer now
POLL = 25
PAUSES = (0.2, 0.5, 1, 2)  # seconds between tries while the desk is away
MAX_NOTE = 2000
MAX_TEXT = 200  # characters of a session, a call's id and a key


def bounded(text: str) -> str:
    """Return the text of a session or a call's id; for one that is too long its digest, so that no two become one."""
    return text if len(text) <= MAX_TEXT else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Action:
    """A request as the desk has it. `arguments` are those that count: a person may have edited them."""

    id: str
    number: int
    status: str
    tool: str
    digest: str
    arguments: dict[str, Any]
    url: str = ""
    told: dict[str, Any] = field(default_factory=dict, repr=False)  # all that the desk says of it

    @classmethod
    def read(cls, told: dict, *, tool: str | None = None) -> "Action":
        """Read the desk's answer. Unreachable where a field is missing, or it is about another tool than was asked."""
        try:
            found = cls(
                str(uuid.UUID(told["id"])), told["number"], told["status"], told["tool"], told["digest"],
                told["arguments"], told["url"], told,
            )  # fmt: skip
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Unreachable(f"This is no desk's answer about an action: {error!r}") from None
        kinds = (isinstance(found.number, int), isinstance(found.digest, str), isinstance(found.arguments, dict))
        if found.status not in STATUSES or not all(kinds) or (tool is not None and found.tool != tool):
            raise Unreachable("This is no desk's answer about the action that was asked for.")
        return found

    @property
    def name(self) -> str:
        return f"A-{self.number}"

    @property
    def decision(self) -> dict:
        return self.told.get("decision") or {}

    @property
    def comment(self) -> str:
        return self.decision.get("comment") or ""

    @property
    def is_edited(self) -> bool:
        return bool(self.decision.get("edited"))

    @property
    def question(self) -> dict | None:
        """A person's question that nobody has answered: {"id", "text", "by", "at"}."""
        return self.told.get("question")

    @property
    def words(self) -> str:
        """Why the call is not made, for a person or a model to read."""
        by, said = self.decision.get("by", "Somebody"), self.comment.strip()
        match self.status:
            case "denied" if self.decision.get("do_first"):
                return f"{by} did not approve this yet. First do this: {said} Then ask again."
            case "denied":
                return f"{by} denied this{f': {said}' if said else '.'} Do not work around this."
            case "expired" if self.decision:
                return f"{self.name} was approved, and the approval expired before it was used. It did not run."
            case "expired":
                return f"Nobody answered {self.name} in time, so it did not run. This is not a denial: ask again."
            case "cancelled":
                return f"{(self.told.get('result') or {}).get('note') or f'{self.name} was withdrawn.'} It did not run."
            case "pending":
                return f"{self.name} is not approved yet. This is not a denial."
            case _:
                return f"The approval of {self.name} was used already ({self.status}). It is not used twice."

    def error(self) -> NotAllowed:
        """Return the exception that says why this action's call is not made."""
        kind = {"denied": Denied, "expired": NotAnswered, "cancelled": NotAnswered, "pending": NotAnswered}
        return kind.get(self.status, AlreadyUsed)(self.words, self)


class Actions:
    """The actions of one agent at one desk."""

    def __init__(self, http: Http, *, workspace: str | None = None, grace: float = GRACE):
        self.http, self.workspace, self.grace = http, workspace, grace

    # Ask and wait -----------------------------------------------------------------------------------------------------

    def ask(self, tool: str, arguments: dict[str, Any], *, key: str | None = None, **more) -> Action:
        """Submit a call; return it as the desk has it, decided or not.

        `key` is the idempotency key: with the same one the same question is found again, by any process, whatever
        was restarted in between. Without one each call of this method is a new question. `more`: reasoning, cwd,
        session, call_id, expires_in_s, input_schema, mode, workspace.
        """
        body = {"expires_in_s": LONGEST, "workspace": self.workspace} | more | {"tool": tool, "arguments": arguments}
        body = {name: value for name, value in body.items() if value is not None}
        key = str(uuid.uuid4()) if key is None else key
        return self._find(lambda: Action.read(self.http.post("/actions", body, key=key), tool=tool))

    def get(self, action_id: str) -> Action:
        return Action.read(self.http.get(f"/actions/{uuid.UUID(str(action_id))}"))

    def wait(
        self, action: Action, *, timeout: float | None = None, on_question: Callable[[dict], str | None] | None = None
    ) -> Action:
        """Wait until the action is decided, through restarts of the desk; return it still pending after `timeout`.

        `on_question` gets a person's question ({"text", "by", …}) and returns the answer, or None to leave it open.
        """
        return self._wait(action, ("pending",), timeout, on_question)

    def wait_until_over(self, action: Action, *, timeout: float | None = None) -> Action:
        """Wait until an action that the desk carries out itself has ended."""
        return self._wait(action, OPEN, timeout, None)

    def _wait(self, action: Action, while_in: tuple, timeout, on_question) -> Action:
        end = None if timeout is None else time.monotonic() + timeout
        while action.status in while_in and (left := _left(end)) > 0:
            wait = min(POLL, left)

            def read(action=action, wait=wait):
                return Action.read(self.http.get(f"/actions/{action.id}", wait=wait), tool=action.tool)

            try:
                action = self.persist(read, left)
            except Unreachable:
                break
            if action.question and on_question and (answer := on_question(action.question)):
                self.persist(lambda action=action, said=answer: self.answer(action, said), left)
        return action

    def answer(self, action: Action, text: str):
        """Answer a person's question about the action, which waits on."""
        self.http.post(f"/actions/{action.id}/messages", {"text": text})

    # Use and report ---------------------------------------------------------------------------------------------------

    def use(self, action: Action) -> Action:
        """Use the approval, once; make the call with exactly `arguments` of what is returned.

        NotAllowed when there is nothing to use: denied, expired, or used before.
        """
        if action.status != "approved":
            raise action.error()

        def consume():
            return Action.read(
                self.http.post(f"/actions/{action.id}/consume", {"digest": action.digest}), tool=action.tool
            )

        try:
            used = self.persist(consume, None)
        except Refused as refused:
            raise _not_used(refused, action) from None
        if used.status != "running" or used.digest != action.digest:
            raise Unreachable("This is no desk's answer to the use of an approval. The call is not made.")
        return used

    def go_on(self, action: Action) -> Action:
        """Return an action whose approval was used, before its call is taken up again, as with its user's answer.

        NotAllowed once it has ended, the agent is interrupted, or everything in the team is stopped.
        """

        def ask():
            return Action.read(self.http.post(f"/actions/{action.id}/continue"), tool=action.tool)

        try:
            return self._find(ask)
        except Refused as refused:
            if refused.status != 409:
                raise
            raise NotAllowed(str(refused), action) from None

    def report(self, action: Action, succeeded: bool, note: str = "", *, made: dict | None = None) -> Action:
        """Say how the call ended. Saying it again changes nothing.

        `made`: what its result said of the arguments of the call that takes it back (docs/undo-outside.md).
        """
        body = {"status": "succeeded" if succeeded else "failed", "note": note[:MAX_NOTE]}
        body |= {"made": made} if made else {}
        return self._find(lambda: Action.read(self.http.post(f"/actions/{action.id}/outcome", body)))

    def report_quietly(self, action: Action, succeeded: bool, note: str = "", *, made: dict | None = None):
        """Say how the call ended; that the desk can't be told is logged, and changes nothing about the call."""
        try:
            self.report(action, succeeded, note, made=made)
        except (Unreachable, Refused) as error:
            logger.warning("%s ended (%s), and the desk could not be told: %s", action.name, note or succeeded, error)

    def cancel(self, action: Action) -> Action:
        """Withdraw a question, or an approval that was not used."""
        return Action.read(self.http.post(f"/actions/{action.id}/cancel"))

    # All of it in one -------------------------------------------------------------------------------------------------

    def permitted(self, tool: str, arguments: dict[str, Any], *, on_question=None, **ask) -> Action:
        """Ask, wait, and use the approval; NotAllowed unless it was given."""
        return self.use(self.wait(self.ask(tool, arguments, **ask), on_question=on_question))

    @contextmanager
    def allowed(self, tool: str, arguments: dict[str, Any], *, on_question=None, **ask) -> Iterator[Action]:
        """Run the block once it is approved, with `arguments` of the action that it gets; report how it ended."""
        action = self.permitted(tool, arguments, on_question=on_question, **ask)
        try:
            yield action
        except BaseException as error:
            self.report_quietly(action, False, repr(error))
            raise
        self.report_quietly(action, True)

    # Lists and decisions ----------------------------------------------------------------------------------------------

    def recent(self, *, status: str = "", limit: int = 50) -> list[dict]:
        """Return the newest actions that the token may see, without their arguments."""
        return self.http.get("/actions", status=status, limit=limit).get("actions", [])

    def decide(self, action: Action, verdict: str, *, comment: str = "", arguments: dict | None = None) -> Action:
        """Approve, deny or edit the present version of the action, with a person's token."""
        body = {"verdict": verdict, "digest": action.digest, "comment": comment}
        body |= {} if arguments is None else {"arguments": arguments}
        return Action.read(self.http.post(f"/actions/{action.id}/decision", body))

    def _find(self, request: Callable):
        """Return the response to a request that looks for the desk, and waits longer for one that can't answer now."""
        return self.persist(request, self.grace, when_there=LONGEST_NOT_NOW)

    def persist(self, request: Callable, patience: float | None, when_there: float = 0):
        """Return the response, trying again while no desk answers; `patience` None: without end."""
        began, tries = time.monotonic(), 0
        while True:
            try:
                return request()
            except Unreachable as error:
                pause = PAUSES[min(tries, len(PAUSES) - 1)]
                if isinstance(error, NotNow) and patience is not None:
                    patience = max(patience, when_there)
                if _left(None if patience is None else began + patience) <= pause:
                    raise
            time.sleep(pause)
            tries += 1


def _left(end: float | None) -> float:
    return float("inf") if end is None else end - time.monotonic()


def _not_used(refused: Refused, action: Action) -> Exception:
    match refused.code:
        case "already_consumed":
            return AlreadyUsed(f"The approval of {action.name} was used already. The call is not made twice.", action)
        case "expired" | "revoked" | "not_approved" | "changed" | "digest_mismatch":
            return NotAnswered(str(refused), action)
        case _:
            return refused
