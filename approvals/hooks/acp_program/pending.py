"""The agent's requests that wait for Handrail's decision."""

import json
import os
import threading

PERMISSION = "session/request_permission"
CANCELLED = {"outcome": {"outcome": "cancelled"}}


class PendingRequests:
    """Asks Handrail about requests of the agent, each in a thread of its own; each gets exactly one answer."""

    def __init__(self, desk):
        self._desk = desk
        self._lock, self._pending = threading.Lock(), {}
        self._prefix = os.urandom(8).hex()  # an agent numbers its requests from the start in each process

    def ask(self, message, session, on_allowed, on_denied, on_cancelled, cwd=None):
        """Ask about a request; then call `on_allowed()`, `on_denied(reason)` or, after `cancel`, `on_cancelled()`.

        `cwd`: the folder of the call, if it is not the session's.
        """
        key = json.dumps(message["id"])
        params = {**(message.get("params") or {}), "callId": self.call_id(message)}
        if isinstance(params.get("toolCall"), dict):
            params["toolCall"] = dict(session.call(params["toolCall"]))
        request = {"session": session.id, "on_cancelled": on_cancelled, "process": None, "is_cancelled": False}
        with self._lock:
            self._pending[key] = request
        event = session.event(message["method"], **params)
        event["cwd"] = cwd if isinstance(cwd, str) else event["cwd"]
        threading.Thread(target=self._ask, args=(key, request, event, on_allowed, on_denied), daemon=True).start()

    def call_id(self, message):
        """Return the id of a request's call, for requests that have no tool call with an id."""
        return f"{self._prefix}:{json.dumps(message['id'])}"

    def _ask(self, key, request, event, on_allowed, on_denied):
        def started(process):
            with self._lock:
                request["process"] = process
                if request["is_cancelled"]:
                    process.kill()

        try:
            is_allowed, reason = self._desk.ask(event, started)
        except (OSError, ValueError) as error:
            is_allowed, reason = False, f"Handrail could not be asked ({error}), so nothing is allowed."
        with self._lock:
            self._pending.pop(key, None)
            if request["is_cancelled"]:
                return
        if is_allowed:
            on_allowed()
        else:
            on_denied(reason)

    def cancel(self, session_id=None):
        """Cancel the requests of one session, or all."""
        with self._lock:
            found = [each for each in self._pending.values() if session_id in (None, each["session"])]
            for each in found:
                each["is_cancelled"] = True
                if each["process"]:
                    each["process"].kill()
        for each in found:
            each["on_cancelled"]()


def permission_result(message, is_allowed):
    """Return the result of a request for permission: the option for this call alone, never one for later calls."""
    wanted = "allow_once" if is_allowed else "reject_once"
    options = (message.get("params") or {}).get("options")
    for option in options if isinstance(options, list) else ():
        if isinstance(option, dict) and option.get("kind") == wanted:
            return {"outcome": {"outcome": "selected", "optionId": option.get("optionId")}}
    return CANCELLED
