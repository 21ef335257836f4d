"""The agent's requests that wait for Handrail's answer, and what the agent is answered."""

import json
import os
import threading

PERMISSION = "session/request_permission"
HELD = (PERMISSION, "fs/write_text_file", "terminal/create")
CANCELLED = {"outcome": {"outcome": "cancelled"}}
REFUSED = -32000  # JSON-RPC's code of a request that Handrail denied


class Held:
    """The agent's requests that wait for Handrail, by their id."""

    def __init__(self, desk):
        self._desk = desk
        self._lock, self._waiting = threading.Lock(), {}
        self._named = os.urandom(8).hex()  # the agent counts its requests anew with each start

    def hold(self, message, talk, allowed, denied, given_up):
        """Ask in a thread, then answer the agent: `allowed()`, `denied(why)`, or `given_up()` once it was cancelled."""
        key = json.dumps(message["id"])
        params = {**(message.get("params") or {}), "callId": f"{self._named}:{key}"}
        if isinstance(params.get("toolCall"), dict):
            params["toolCall"] = dict(talk.call(params["toolCall"]))
        waiting = {"session": talk.session, "give_up": given_up, "process": None, "over": False}
        with self._lock:
            self._waiting[key] = waiting
        event = talk.event(message["method"], **params)
        threading.Thread(target=self._hold, args=(key, waiting, event, allowed, denied), daemon=True).start()

    def _hold(self, key, waiting, event, allowed, denied):
        def started(process):
            with self._lock:
                waiting["process"] = process
                if waiting["over"]:
                    process.kill()

        try:
            is_allowed, why = self._desk.ask(event, started)
        except (OSError, ValueError) as error:
            is_allowed, why = False, f"Handrail could not be asked ({error}), so nothing is allowed."
        with self._lock:
            self._waiting.pop(key, None)
            if waiting["over"]:
                return
        if is_allowed:
            allowed()
        else:
            denied(why)

    def cancel(self, session=None):
        """Give up what waits, of one session or of all, and say so to the agent."""
        with self._lock:
            found = [each for each in self._waiting.values() if session in (None, each["session"])]
            for each in found:
                each["over"] = True
                if each["process"]:
                    each["process"].kill()
        for each in found:
            each["give_up"]()


def outcome(message, is_allowed):
    """Return the answer to a request for permission: once, and never for what comes later."""
    wanted = "allow_once" if is_allowed else "reject_once"
    options = (message.get("params") or {}).get("options")
    for option in options if isinstance(options, list) else ():
        if isinstance(option, dict) and option.get("kind") == wanted:
            return {"outcome": {"outcome": "selected", "optionId": option.get("optionId")}}
    return CANCELLED
