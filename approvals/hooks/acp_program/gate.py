"""The gate between an editor and an ACP agent: three requests of the agent need Handrail's approval."""

import json
import os
import threading

from pending import CANCELLED, PERMISSION, PendingRequests, permission_result
from session import Session

WRITE, TERMINAL = "fs/write_text_file", "terminal/create"
GATED = (PERMISSION, WRITE, TERMINAL)
OPENS_SESSION = ("session/new", "session/load", "session/resume")
DENIED = -32000  # JSON-RPC code of a request that Handrail denied
# Requests of the agent by whose responses the end of a terminal's command is known.
TELLS_EXIT = ("terminal/wait_for_exit", "terminal/output")


class Gate:
    """Forwards messages in both directions, and reports the conversation to Handrail."""

    def __init__(self, desk, agent, to_editor):
        self._desk, self._agent, self._to_editor = desk, agent, to_editor
        self._pending = PendingRequests(desk)
        self._lock, self._sessions, self._denials = threading.Lock(), {}, {}
        self._of_editor = {}  # the editor's requests without a response: {id: (method, params)}
        self._of_agent = {}  # the agent's, as far as a response tells how a call ended: {id: (method, params)}
        self._calls = {}  # approved calls that the editor carries out: {request id or terminal id: (session, call)}

    # From the editor --------------------------------------------------------------------------------------------------

    def from_editor(self, message):
        method, params = message.get("method"), message.get("params")
        params = params if isinstance(params, dict) else {}
        session_id = params.get("sessionId")
        if method is None:
            self._take_response(message)
        elif "id" in message and method in (*OPENS_SESSION, "session/prompt"):
            self._of_editor[json.dumps(message["id"])] = (method, params)
        if method == "session/cancel":
            self._pending.cancel(session_id)
        if method == "session/prompt" and isinstance(params.get("prompt"), list):
            self._take_prompt(session_id, params["prompt"])
        self._agent.write(message)

    def _take_prompt(self, session_id, blocks):
        """Report a prompt, and add the reasons of denials since the last one: ACP has no other way to the model."""
        texts = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
        self._session(session_id).begin_turn("\n\n".join(text for text in texts if isinstance(text, str)))
        if reasons := self._denials.pop(session_id, []):
            blocks.append({"type": "text", "text": "\n\n".join(reasons)})

    def _take_response(self, message):
        """Report the end of a call that the editor carries out: a written file, or a terminal's command."""
        key = json.dumps(message.get("id"))
        result = message.get("result") if isinstance(message.get("result"), dict) else {}
        if key in self._calls:
            session, call = self._calls.pop(key)
            if call["kind"] == "execute" and "error" not in message:
                self._calls[("terminal", str(result.get("terminalId")))] = session, call
            else:
                session.end_call(call | {"status": "failed" if "error" in message else "completed"})
            return
        method, params = self._of_agent.pop(key, ("", {}))
        status = result.get("exitStatus") if method == "terminal/output" else result
        if not method or not isinstance(status, dict) or not {"exitCode", "signal"} & set(status):
            return
        session, call = self._calls.pop(("terminal", str(params.get("terminalId"))), (None, None))
        if session:
            session.end_call(call | {"status": "completed" if status.get("exitCode") == 0 else "failed"})

    # From the agent ---------------------------------------------------------------------------------------------------

    def from_agent(self, message):
        method = message.get("method")
        params = message.get("params") if isinstance(message.get("params"), dict) else {}
        session_id = params.get("sessionId")
        if method in GATED:
            if "id" in message:
                self._ask(message, params, self._session(session_id))
            return
        if method in TELLS_EXIT and "id" in message:
            self._of_agent[json.dumps(message["id"])] = (method, params)
        if method == "session/update" and isinstance(params.get("update"), dict) and not self._is_loading(session_id):
            self._session(session_id).update(params["update"])
        if method is None:
            self._take_response_of_agent(message)
        self._to_editor(message)

    def _is_loading(self, session_id):
        """Return whether the updates of a session are its history, which `session/load` repeats."""
        open_requests = list(self._of_editor.values())
        return any(
            method == "session/load" and params.get("sessionId") == session_id for method, params in open_requests
        )

    def _take_response_of_agent(self, message):
        method, params = self._of_editor.pop(json.dumps(message.get("id")), ("", {}))
        result = message.get("result") if isinstance(message.get("result"), dict) else {}
        session_id = result.get("sessionId") or params.get("sessionId")
        if method in OPENS_SESSION and "result" in message:
            self._session(session_id, params.get("cwd")).begin()
        elif method == "session/prompt":
            self._session(session_id).end_turn(result.get("stopReason"), result.get("usage"))

    def _session(self, session_id, cwd=None):
        with self._lock:
            new = Session(session_id, cwd or os.getcwd(), self._desk.report)
            session = self._sessions.setdefault(session_id, new)
            session.cwd = cwd or session.cwd
        return session

    # Requests that need approval --------------------------------------------------------------------------------------

    def _ask(self, message, params, session):
        session.flush()
        if message["method"] == PERMISSION:
            self._ask_permission(message, session)
            return
        key = json.dumps(message["id"])

        def on_allowed():
            self._to_editor(message)

        def respond(reason):
            self._calls.pop(key, None)
            self._agent.respond(message, error={"code": DENIED, "message": reason})

        def on_cancelled():
            respond("The turn was cancelled.")

        call_id = self._pending.call_id(message)
        self._calls[key] = session, {"toolCallId": call_id, **_call_of(message["method"], params)}
        cwd = params.get("cwd") if message["method"] == TERMINAL else None
        self._pending.ask(message, session, on_allowed, respond, on_cancelled, cwd=cwd)

    def _ask_permission(self, message, session):
        def on_allowed():
            self._agent.respond(message, result=permission_result(message, True))

        def on_denied(reason):
            self._denials.setdefault(session.id, []).append(reason)
            text = {"type": "text", "text": f"\n\n{reason}\n\n"}
            update = {"sessionUpdate": "agent_message_chunk", "content": text}
            params = {"sessionId": session.id, "update": update}
            self._to_editor({"jsonrpc": "2.0", "method": "session/update", "params": params})
            self._agent.respond(message, result=permission_result(message, False))

        def on_cancelled():
            self._agent.respond(message, result=CANCELLED)

        self._pending.ask(message, session, on_allowed, on_denied, on_cancelled)

    def close(self):
        self._pending.cancel()


def _call_of(method, params):
    """Return a tool call that describes what the editor is asked to do."""
    if method == WRITE:
        return {"kind": "edit", "title": str(params.get("path")), "rawInput": {"path": params.get("path")}}
    words = [params.get("command"), *(params.get("args") or [])]
    title = " ".join(word for word in words if isinstance(word, str))
    return {"kind": "execute", "title": title, "rawInput": {"command": title}}
