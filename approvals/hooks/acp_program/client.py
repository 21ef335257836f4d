"""A client of one agent: one session, one prompt, and the prompts that say why something was denied."""

import threading

from held import CANCELLED, PERMISSION, Held, outcome
from talk import Talk
from wire import messages, show

MAX_EXPLAINED = 20  # prompts in a row that say why something was denied
VERSION = 1  # of the protocol
NO_METHOD = {"code": -32601, "message": "This client has no such method."}


class Ended(Exception):
    """The agent's process has ended in the middle of it."""


class Refused(Exception):
    """The agent answered with an error."""


class Client:
    """A client of one agent: one session, one prompt, and the prompts that explain what was denied."""

    def __init__(self, desk, agent, turn):
        self._desk, self._agent, self._turn = desk, agent, turn
        self._held = Held(desk)
        self._answers, self._number, self._ended = {}, 0, threading.Event()
        self._condition = threading.Condition()
        self._denied, self.is_stopped, self.talk = [], False, None
        threading.Thread(target=self._read, daemon=True).start()

    def work(self):
        """Return {type: "result", …}: the answer, or the error with which it ended."""
        told = self._request(
            "initialize",
            protocolVersion=VERSION,
            clientCapabilities={"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
            clientInfo={"name": "handrail", "title": "Handrail", "version": "1"},
        )
        self.talk = self._session(told.get("agentCapabilities") or {})
        show(type="session", session=self.talk.session)
        self._desk.tell(self.talk.event("session/new", agent=told.get("agentInfo")))
        prompt, stop = self._turn["prompt"], ""
        for _ in range(MAX_EXPLAINED):
            stop = self._prompt(prompt)
            if not self._denied or self.is_stopped:
                break
            prompt, self._denied = "\n\n".join(self._denied), []
        if stop == "end_turn":
            return {"type": "result", "answer": self.talk.answer, "stop": stop}
        return {"type": "result", "error": f"It stopped: {stop}.", "stop": stop}

    def _session(self, can):
        cwd, known = self._turn["cwd"], self._turn["session"]
        where = {"cwd": cwd, "mcpServers": []}
        if not known:
            return Talk(str(self._request("session/new", **where)["sessionId"]), cwd, self._tell)
        resumes = "resume" in (can.get("sessionCapabilities") or {})
        try:
            # While it is loaded its history comes again: there is no Talk yet that would take it.
            self._request("session/resume" if resumes else "session/load", sessionId=known, **where)
        except Refused as error:
            show(type="no_session", error=str(error))
            raise
        return Talk(known, cwd, self._tell)

    def _prompt(self, text):
        self.talk.answer = ""
        self.talk.prompted(text)
        parts = [{"type": "text", "text": text}]
        told = self._request("session/prompt", sessionId=self.talk.session, prompt=parts)
        self.talk.stopped(told.get("stopReason"), told.get("usage"))
        return str(told.get("stopReason"))

    def _tell(self, event):
        self._desk.tell(event)
        call = event.get("toolCall")
        name = event["hook_event_name"]
        if call:
            show(type="call", title=call.get("title"), status=call.get("status"))
        elif name in ("session/said", "session/thought"):
            show(type=name.partition("/")[2], text=event["text"])

    def _request(self, method, **params):
        with self._condition:
            self._number += 1
            number = self._number
        self._agent.write({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        with self._condition:
            self._condition.wait_for(lambda: number in self._answers or self._ended.is_set())
            told = self._answers.pop(number, None)
        if told is None:
            raise Ended(f"The agent ended before it answered {method}.")
        if "result" not in told:
            error = told.get("error")
            raise Refused(f"{method}: {error.get('message') if isinstance(error, dict) else error}")
        return told["result"] if isinstance(told["result"], dict) else {}

    def _read(self):
        for message in messages(self._agent.process.stdout):
            if "method" not in message:
                with self._condition:
                    self._answers[message.get("id")] = message
                    self._condition.notify_all()
            elif message["method"] == "session/update" and self.talk:
                told = (message.get("params") or {}).get("update")
                self.talk.update(told if isinstance(told, dict) else {})
            elif "id" in message:
                self._asked(message)
        with self._condition:
            self._ended.set()
            self._condition.notify_all()
        self._held.cancel()

    def _asked(self, message):
        if message["method"] != PERMISSION or not self.talk:
            self._agent.answer(message, error=NO_METHOD)
            return
        self.talk.flush()

        def denied(why):
            self._denied.append(why)
            self._agent.answer(message, result=outcome(message, False))

        def allowed():
            self._agent.answer(message, result=outcome(message, True))

        def given_up():
            self._agent.answer(message, result=CANCELLED)

        self._held.hold(message, self.talk, allowed, denied, given_up)

    def stop(self):
        """End the turn, as a person wants it."""
        self.is_stopped = True
        if self.talk:
            told = {"sessionId": self.talk.session}
            self._agent.write({"jsonrpc": "2.0", "method": "session/cancel", "params": told})
            self._held.cancel()
