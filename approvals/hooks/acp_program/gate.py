"""Between an editor and its agent: what is not held passes, and Handrail is told of the conversation."""

import json
import os
import threading

from held import CANCELLED, HELD, PERMISSION, REFUSED, Held, outcome
from talk import Talk


class Gate:
    """Between an editor and its agent: passes on what it does not hold, and tells Handrail of the conversation."""

    def __init__(self, desk, agent, to_editor):
        self._desk, self._agent, self._to_editor = desk, agent, to_editor
        self._held = Held(desk)
        self._lock, self._talks, self._pending, self._denied = threading.Lock(), {}, {}, {}

    def from_editor(self, message):
        method, params = message.get("method"), message.get("params")
        params = params if isinstance(params, dict) else {}
        session = params.get("sessionId")
        if "id" in message and method in ("session/new", "session/load", "session/resume", "session/prompt"):
            self._pending[json.dumps(message["id"])] = (method, params)
        if method == "session/cancel":
            self._held.cancel(session)
        if method == "session/prompt" and isinstance(params.get("prompt"), list):
            self._prompted(session, params)
        self._agent.write(message)

    def _prompted(self, session, params):
        talk, blocks = self._talk(session), params["prompt"]
        texts = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
        talk.answer = ""
        talk.prompted("\n\n".join(text for text in texts if isinstance(text, str)))
        if why := self._denied.pop(session, []):
            blocks.append({"type": "text", "text": "\n\n".join(why)})

    def from_agent(self, message):
        params = message.get("params") if isinstance(message.get("params"), dict) else {}
        if message.get("method") in HELD:
            if "id" in message:
                self._hold(message, self._talk(params.get("sessionId")))
            return
        if message.get("method") == "session/update" and isinstance(params.get("update"), dict):
            session = params.get("sessionId")
            if not any(sent == "session/load" and of.get("sessionId") == session for sent, of in self._open()):
                self._talk(session).update(params["update"])
        if "method" not in message:
            self._answered(message)
        self._to_editor(message)

    def _open(self):
        return list(self._pending.values())

    def _answered(self, message):
        method, params = self._pending.pop(json.dumps(message.get("id")), ("", {}))
        told = message.get("result") if isinstance(message.get("result"), dict) else {}
        session = told.get("sessionId") or params.get("sessionId")
        if method in ("session/new", "session/load", "session/resume") and "result" in message:
            talk = self._talk(session, params.get("cwd"))
            self._desk.tell(talk.event("session/new"))
        elif method == "session/prompt":
            self._talk(session).stopped(told.get("stopReason"), told.get("usage"))

    def _talk(self, session, cwd=None):
        with self._lock:
            talk = self._talks.setdefault(session, Talk(session, cwd or os.getcwd(), self._desk.tell))
            talk.cwd = cwd or talk.cwd
        return talk

    def _hold(self, message, talk):
        asks = message["method"] == PERMISSION
        talk.flush()

        def allowed():
            if asks:
                self._agent.answer(message, result=outcome(message, True))
            else:
                self._to_editor(message)

        def denied(why):
            if not asks:
                self._agent.answer(message, error={"code": REFUSED, "message": why})
                return
            self._denied.setdefault(talk.session, []).append(why)
            said = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": f"\n\n{why}\n\n"}}
            told = {"sessionId": talk.session, "update": said}
            self._to_editor({"jsonrpc": "2.0", "method": "session/update", "params": told})
            self._agent.answer(message, result=outcome(message, False))

        def given_up():
            told = {"result": CANCELLED} if asks else {"error": {"code": REFUSED, "message": "The turn was cancelled."}}
            self._agent.answer(message, **told)

        self._held.hold(message, talk, allowed, denied, given_up)

    def close(self):
        self._held.cancel()
