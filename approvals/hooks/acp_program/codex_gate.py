"""The gate between an editor and `codex app-server`: Codex's requests for approval are answered by Handrail.

Codex asks about commands outside its sandbox, changes outside its writable folders, network access and further
permissions. The protocol carries neither an edited call nor a reason; the reason is sent to the running turn.
"""

import itertools
import os
import threading

from pending import PERMISSION, PendingRequests
from session import Session

COMMAND, CHANGES, PERMISSIONS = "execute", "edit", "other"  # kinds of a tool call in ACP
DECISIONS = ({"decision": "accept"}, {"decision": "decline"}, {"decision": "cancel"})
OLD_DECISIONS = ({"decision": "approved"}, {"decision": "denied"}, {"decision": "abort"})
NO_PERMISSIONS = {"permissions": {}}
# {method: (kind of the call, (result if allowed, if denied, if cancelled))}; None: the permissions that were requested
APPROVALS = {
    "item/commandExecution/requestApproval": (COMMAND, DECISIONS),
    "item/fileChange/requestApproval": (CHANGES, DECISIONS),
    "item/permissions/requestApproval": (PERMISSIONS, (None, NO_PERMISSIONS, NO_PERMISSIONS)),
    "execCommandApproval": (COMMAND, OLD_DECISIONS),
    "applyPatchApproval": (CHANGES, OLD_DECISIONS),
}
# Parameters that identify or describe a request and do not change what it allows.
DESCRIPTIVE = frozenset(
    (
        "threadId",
        "turnId",
        "itemId",
        "approvalId",
        "conversationId",
        "callId",
        "startedAtMs",
        "reason",
        "commandActions",
        "parsedCmd",
        "availableDecisions",
        "proposedExecpolicyAmendment",
        "proposedNetworkPolicyAmendments",
        "environmentId",
    )
)
OWN_REQUEST = "handrail-"  # prefix of the ids of this gate's own requests to Codex


class CodexGate:
    """Forwards messages in both directions, and answers Codex's requests for approval."""

    def __init__(self, desk, agent, to_editor):
        self._desk, self._agent, self._to_editor = desk, agent, to_editor
        self._pending, self._numbers = PendingRequests(desk), itertools.count(1)
        self._lock, self._sessions = threading.Lock(), {}
        self._changes, self._asked = {}, set()  # by the ids of items

    def from_editor(self, message):
        method = message.get("method")
        params = message.get("params") if isinstance(message.get("params"), dict) else {}
        if method == "turn/interrupt":
            self._pending.cancel(params.get("threadId"))
        if method == "turn/start" and isinstance(params.get("input"), list):
            texts = [part.get("text") for part in params["input"] if isinstance(part, dict)]
            prompt = "\n\n".join(text for text in texts if isinstance(text, str))
            self._session(params.get("threadId")).begin_turn(prompt)
        self._agent.write(message)

    def from_agent(self, message):
        method = message.get("method")
        params = message.get("params") if isinstance(message.get("params"), dict) else {}
        if method in APPROVALS and "id" in message:
            self._ask(message, params)
            return
        if method is None and str(message.get("id")).startswith(OWN_REQUEST):
            return
        item = params.get("item") if isinstance(params.get("item"), dict) else {}
        if method == "item/started" and "changes" in item:
            self._changes[item.get("id")] = item["changes"]
        elif method == "item/completed":
            self._take_item(self._session(params.get("threadId")), item)
        elif method == "turn/completed":
            turn = params.get("turn") if isinstance(params.get("turn"), dict) else {}
            self._session(params.get("threadId")).end_turn(turn.get("status"), None)
        self._to_editor(message)

    def _take_item(self, session, item):
        """Report an answer, or the end of a call that needed approval."""
        if item.get("type") == "agentMessage" and isinstance(item.get("text"), str):
            session.update({"sessionUpdate": "agent_message_chunk", "content": {"text": item["text"]}})
            session.flush()
        elif item.get("id") in self._asked:
            self._asked.discard(item["id"])
            status = "completed" if item.get("status") == "completed" else "failed"
            content = [{"type": "content", "content": {"text": str(item.get("aggregatedOutput") or "")}}]
            update = {"toolCallId": item["id"], "status": status, "content": content}
            session.update({"sessionUpdate": "tool_call_update", **update})
        self._changes.pop(item.get("id"), None)

    def _session(self, thread_id):
        with self._lock:
            return self._sessions.setdefault(thread_id, Session(thread_id, os.getcwd(), self._desk.report))

    def _ask(self, message, params):
        kind, (allowed, denied, cancelled) = APPROVALS[message["method"]]
        allowed = allowed or {"permissions": params.get("permissions") or {}, "scope": "turn"}
        call = self._call_of(kind, params)
        self._asked.add(call["toolCallId"])

        def on_allowed():
            self._agent.respond(message, result=allowed)

        def on_denied(reason):
            self._agent.respond(message, result=denied)
            self._steer(params, reason)

        def on_cancelled():
            self._agent.respond(message, result=cancelled)

        session = self._session(params.get("threadId") or params.get("conversationId"))
        request = {"id": message["id"], "method": PERMISSION, "params": {"toolCall": call}}
        self._pending.ask(request, session, on_allowed, on_denied, on_cancelled)

    def _call_of(self, kind, params):
        """Return the request as a tool call of ACP. Parameters that are not DESCRIPTIVE stay in its input."""
        call_id = str(params.get("itemId") or params.get("callId"))
        if params.get("approvalId"):
            call_id = f"{call_id}:{params['approvalId']}"
        given = {name: value for name, value in params.items() if value not in (None, [], {})}
        given = {name: value for name, value in given.items() if name not in DESCRIPTIVE}
        if kind == COMMAND:
            title = str(params.get("command"))
            if isinstance(params.get("reason"), str):
                given["description"] = params["reason"]  # as in a shell call of other agents
            if given.get("kind") == "command":  # as opposed to input for a running program
                del given["kind"]
        elif kind == CHANGES:
            title = "Change files"
            given["changes"] = self._changes.get(params.get("itemId")) or params.get("fileChanges")
        else:
            title = "Further permissions"
        return {"toolCallId": call_id, "kind": kind, "title": title, "rawInput": given}

    def _steer(self, params, text):
        """Send a text to the running turn."""
        if not params.get("turnId"):
            return
        about = {"threadId": params["threadId"], "expectedTurnId": params["turnId"]}
        about["input"] = [{"type": "text", "text": text}]
        self._agent.write({"id": f"{OWN_REQUEST}{next(self._numbers)}", "method": "turn/steer", "params": about})

    def close(self):
        self._pending.cancel()
