"""An ACP client that prompts one agent in one session."""

import threading

from pending import CANCELLED, PERMISSION, PendingRequests, permission_result
from session import Session
from wire import messages, print_event

MAX_PROMPTS = 20  # in one turn: after the first, each explains denials to the agent
PROTOCOL_VERSION = 1
METHOD_NOT_FOUND = {"code": -32601, "message": "This client does not support the method."}


class AgentEnded(Exception):
    """The agent's process ended before it responded."""


class AgentError(Exception):
    """The agent responded with an error."""


class Client:
    """Runs one turn. ACP carries no reason for a denial, so the reason becomes the next prompt."""

    def __init__(self, desk, agent, turn):
        self._desk, self._agent, self._turn = desk, agent, turn
        self._pending = PendingRequests(desk)
        self._responses, self._last_id, self._has_ended = {}, 0, threading.Event()
        self._changed = threading.Condition()
        self._denials, self.is_stopped, self._session = [], False, None
        threading.Thread(target=self._read, daemon=True).start()

    def run_turn(self):
        """Return the last line to print, {type: "result", answer or error, stop}. AgentEnded, AgentError."""
        response = self._request(
            "initialize",
            protocolVersion=PROTOCOL_VERSION,
            clientCapabilities={"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
            clientInfo={"name": "handrail", "title": "Handrail", "version": "1"},
        )
        self._session = self._open_session(response.get("agentCapabilities") or {})
        print_event(type="session", session=self._session.id)
        self._session.begin()
        prompt, stop = self._turn["prompt"], ""
        instructions = self._turn.get("instructions", "")
        for _ in range(MAX_PROMPTS):
            stop = self._prompt(prompt, instructions)
            if not self._denials or self.is_stopped:
                break
            prompt, instructions, self._denials = "\n\n".join(self._denials), "", []
        if stop == "end_turn":
            return {"type": "result", "answer": self._session.answer, "stop": stop}
        return {"type": "result", "error": f"The agent stopped: {stop}.", "stop": stop}

    def _open_session(self, capabilities):
        cwd, session_id = self._turn["cwd"], self._turn["session"]
        params = {"cwd": cwd, "mcpServers": []}
        if not session_id:
            return Session(str(self._request("session/new", **params)["sessionId"]), cwd, self._report)
        can_resume = "resume" in (capabilities.get("sessionCapabilities") or {})
        try:
            # `session/load` repeats the history as updates; they are ignored, as there is no Session yet.
            self._request("session/resume" if can_resume else "session/load", sessionId=session_id, **params)
        except AgentError as error:
            print_event(type="no_session", error=str(error))
            raise
        return Session(session_id, cwd, self._report)

    def _prompt(self, text, instructions):
        self._session.begin_turn(text)
        parts = [{"type": "text", "text": text}]
        if instructions:
            parts.append({"type": "text", "text": instructions, "annotations": {"audience": ["assistant"]}})
        response = self._request("session/prompt", sessionId=self._session.id, prompt=parts)
        self._session.end_turn(response.get("stopReason"), response.get("usage"))
        return str(response.get("stopReason"))

    def _report(self, event):
        self._desk.report(event)
        call, name = event.get("toolCall"), event["hook_event_name"]
        if call:
            print_event(type="call", title=call.get("title"), status=call.get("status"))
        elif name in ("session/said", "session/thought"):
            print_event(type=name.partition("/")[2], text=event["text"])

    def _request(self, method, **params):
        with self._changed:
            self._last_id += 1
            request_id = self._last_id
        self._agent.write({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
        with self._changed:
            self._changed.wait_for(lambda: request_id in self._responses or self._has_ended.is_set())
            response = self._responses.pop(request_id, None)
        if response is None:
            raise AgentEnded(f"The agent ended before it responded to {method}.")
        if "result" not in response:
            error = response.get("error")
            raise AgentError(f"{method}: {error.get('message') if isinstance(error, dict) else error}")
        return response["result"] if isinstance(response["result"], dict) else {}

    def _read(self):
        for message in messages(self._agent.process.stdout):
            if "method" not in message:
                with self._changed:
                    self._responses[message.get("id")] = message
                    self._changed.notify_all()
            elif message["method"] == "session/update" and self._session:
                update = (message.get("params") or {}).get("update")
                self._session.update(update if isinstance(update, dict) else {})
            elif "id" in message:
                self._take_request(message)
        with self._changed:
            self._has_ended.set()
            self._changed.notify_all()
        self._pending.cancel()

    def _take_request(self, message):
        if message["method"] != PERMISSION or not self._session:
            self._agent.respond(message, error=METHOD_NOT_FOUND)
            return
        self._session.flush()

        def on_allowed():
            self._agent.respond(message, result=permission_result(message, True))

        def on_denied(reason):
            self._denials.append(reason)
            self._agent.respond(message, result=permission_result(message, False))

        def on_cancelled():
            self._agent.respond(message, result=CANCELLED)

        self._pending.ask(message, self._session, on_allowed, on_denied, on_cancelled)

    def stop(self):
        """Cancel the turn."""
        self.is_stopped = True
        if self._session:
            params = {"sessionId": self._session.id}
            self._agent.write({"jsonrpc": "2.0", "method": "session/cancel", "params": params})
            self._pending.cancel()
