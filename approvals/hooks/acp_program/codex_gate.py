"""Between an editor and `codex app-server`: what Codex asks approval for, as its own protocol has it.

Commands that leave its sandbox, changes outside of it, network and more permissions. The protocol carries neither an
edit nor a reason: the reason is sent to the turn that goes on.
"""

import itertools
import os
import threading

from held import PERMISSION, Held
from talk import Talk

NOW = ({"decision": "accept"}, {"decision": "decline"}, {"decision": "cancel"})
BEFORE = ({"decision": "approved"}, {"decision": "denied"}, {"decision": "abort"})
NOTHING = {"permissions": {}}
# {the request: what it is answered: allowed, denied, given up}
ANSWERS = {
    "item/commandExecution/requestApproval": NOW,
    "item/fileChange/requestApproval": NOW,
    "item/permissions/requestApproval": (None, NOTHING, NOTHING),  # allowed: what was asked for, for this turn
    "execCommandApproval": BEFORE,
    "applyPatchApproval": BEFORE,
}
# What does not change which command runs, and where.
BESIDE = ("threadId", "turnId", "itemId", "approvalId", "startedAtMs", "reason", "commandActions", "availableDecisions")
BESIDE += (
    "proposedExecpolicyAmendment",
    "proposedNetworkPolicyAmendments",
    "environmentId",
    "conversationId",
    "callId",
)
BESIDE += ("parsedCmd",)
OURS = "handrail-"  # how the ids of our own requests begin


class CodexGate:
    """Passes on what it does not answer itself."""

    def __init__(self, desk, agent, to_editor):
        self._desk, self._agent, self._to_editor = desk, agent, to_editor
        self._held, self._numbers = Held(desk), itertools.count(1)
        self._lock, self._talks, self._changes, self._asked = threading.Lock(), {}, {}, set()

    def from_editor(self, message):
        params = message.get("params") if isinstance(message.get("params"), dict) else {}
        thread = params.get("threadId")
        if message.get("method") == "turn/interrupt":
            self._held.cancel(thread)
        if message.get("method") == "turn/start" and isinstance(params.get("input"), list):
            texts = [part.get("text") for part in params["input"] if isinstance(part, dict)]
            talk = self._talk(thread)
            talk.answer = ""
            talk.prompted("\n\n".join(text for text in texts if isinstance(text, str)))
        self._agent.write(message)

    def from_agent(self, message):
        params = message.get("params") if isinstance(message.get("params"), dict) else {}
        method = message.get("method")
        if method in ANSWERS and "id" in message:
            self._hold(message, params)
            return
        if method is None and str(message.get("id")).startswith(OURS):
            return
        item = params.get("item") if isinstance(params.get("item"), dict) else {}
        if method == "item/started" and "changes" in item:
            self._changes[item.get("id")] = item["changes"]
        elif method == "item/completed":
            self._completed(self._talk(params.get("threadId")), item)
        elif method == "turn/completed":
            turn = params.get("turn") if isinstance(params.get("turn"), dict) else {}
            self._talk(params.get("threadId")).stopped(turn.get("status"), None)
        self._to_editor(message)

    def _completed(self, talk, item):
        if item.get("type") == "agentMessage" and isinstance(item.get("text"), str):
            talk.update({"sessionUpdate": "agent_message_chunk", "content": {"text": item["text"]}})
            talk.flush()
        elif item.get("id") in self._asked:
            status = "completed" if item.get("status") == "completed" else "failed"
            content = [{"type": "content", "content": {"text": str(item.get("aggregatedOutput") or "")}}]
            told = {"toolCallId": item["id"], "status": status, "content": content}
            talk.update({"sessionUpdate": "tool_call_update", **told})

    def _talk(self, thread):
        with self._lock:
            return self._talks.setdefault(thread, Talk(thread, os.getcwd(), self._desk.tell))

    def _hold(self, message, params):
        talk = self._talk(params.get("threadId") or params.get("conversationId"))
        call = self._described(message["method"], params)
        self._asked.add(call["toolCallId"])
        allowed, denied, given_up = ANSWERS[message["method"]]
        allowed = allowed or {"permissions": params.get("permissions") or {}, "scope": "turn"}

        def refuse(why):
            self._agent.answer(message, result=denied)
            self._explain(params, why)

        request = {"id": message["id"], "method": PERMISSION, "params": {"toolCall": call}}
        answer = self._agent.answer
        self._held.hold(
            request,
            talk,
            lambda: answer(message, result=allowed),
            refuse,
            lambda: answer(message, result=given_up),
        )

    def _described(self, method, params):
        """Return the call in ACP's words."""
        key = str(params.get("itemId") or params.get("callId"))
        if params.get("approvalId"):
            key = f"{key}:{params['approvalId']}"
        raw = {name: value for name, value in params.items() if name not in BESIDE and value not in (None, [], {})}
        if "ommand" in method:
            if raw.get("kind") == "command":
                del raw["kind"]
            return {"toolCallId": key, "kind": "execute", "title": str(params.get("command")), "rawInput": raw}
        if "ermissions" in method:
            return {"toolCallId": key, "kind": "other", "title": "More permissions", "rawInput": raw}
        raw["changes"] = self._changes.get(params.get("itemId")) or params.get("fileChanges")
        return {"toolCallId": key, "kind": "edit", "title": "Change files", "rawInput": raw}

    def _explain(self, params, why):
        if not params.get("turnId"):
            return
        told = {"threadId": params["threadId"], "expectedTurnId": params["turnId"]}
        told["input"] = [{"type": "text", "text": why}]
        self._agent.write({"id": f"{OURS}{next(self._numbers)}", "method": "turn/steer", "params": told})

    def close(self):
        self._held.cancel()
