"""What is said in one session: the pieces of a text put together, and all that is told of a tool call."""

CHUNKS = {"agent_message_chunk": "said", "agent_thought_chunk": "thought"}
OVER = ("completed", "failed")


class Talk:
    """One session; `tell` gets an event for each thing that is whole."""

    def __init__(self, session, cwd, tell):
        self.session, self.cwd, self._tell = session, cwd, tell
        self.calls, self.answer, self.usage = {}, "", {}
        self._part, self._key, self._text = "", "", ""

    def event(self, name, **more):
        return {"hook_event_name": name, "sessionId": self.session, "cwd": self.cwd, **more}

    def prompted(self, text):
        self._tell(self.event("session/prompt", text=text))

    def update(self, told):
        kind = told.get("sessionUpdate")
        if kind in CHUNKS:
            content = told.get("content")
            text = content.get("text") if isinstance(content, dict) else None
            if isinstance(text, str):
                self._piece(CHUNKS[kind], str(told.get("messageId") or ""), text)
            return
        if kind in ("tool_call", "tool_call_update"):
            self.flush()
            call = self.call(told)
            if told.get("status") in OVER:
                self._tell(self.event("session/update", toolCall=call))
                self.calls.pop(str(told.get("toolCallId")), None)
        elif kind == "plan":
            self._tell(self.event("session/update", plan=told.get("entries")))
        elif kind == "usage_update":
            self.usage = {name: told[name] for name in ("used", "size", "cost") if name in told}

    def call(self, told):
        """Return all that is known of a tool call, with what is told now."""
        known = self.calls.setdefault(str(told.get("toolCallId")), {})
        known.update({name: value for name, value in told.items() if value is not None and name != "sessionUpdate"})
        return known

    def _piece(self, part, key, text):
        if (part, key) != (self._part, self._key):
            self.flush()
            self._part, self._key = part, key
        self._text += text

    def flush(self):
        if self._text.strip():
            self._tell(self.event(f"session/{self._part}", text=self._text, messageId=self._key))
            if self._part == "said":
                self.answer = self._text
        self._part = self._key = self._text = ""

    def stopped(self, reason, usage):
        self.flush()
        told = {"stopReason": reason, "said": self.answer, "usage": usage, "context": self.usage}
        self._tell(self.event("session/stopped", **told))
