"""What an agent reports of one session, turned into events for Handrail."""

TEXTS = {"agent_message_chunk": "said", "agent_thought_chunk": "thought"}  # {an update: the name of its event}
ENDED = ("completed", "failed")


class Session:
    """Joins the chunks of a text, and collects what the agent reports of each tool call.

    `report` gets an event once a text, a call or a plan is complete.
    """

    def __init__(self, session_id, cwd, report):
        self.id, self.cwd, self._report = session_id, cwd, report
        self.calls, self.answer, self.usage = {}, "", {}
        self._kind, self._message_id, self._text = "", "", ""

    def event(self, name, **fields):
        """Return an event. Fields that an agent sends cannot replace its name, session or folder."""
        return {**fields, "hook_event_name": name, "sessionId": self.id, "cwd": self.cwd}

    def begin(self):
        self._report(self.event("session/new"))

    def begin_turn(self, prompt):
        self.answer = ""
        self._report(self.event("session/prompt", text=prompt))

    def end_turn(self, reason, usage):
        self.flush()
        fields = {"stopReason": reason, "said": self.answer, "usage": usage, "context": self.usage}
        self._report(self.event("session/stopped", **fields))

    def update(self, update):
        """Take a `session/update` of the agent."""
        kind = update.get("sessionUpdate")
        if kind in TEXTS:
            content = update.get("content")
            text = content.get("text") if isinstance(content, dict) else None
            if isinstance(text, str):
                self._add_chunk(TEXTS[kind], str(update.get("messageId") or ""), text)
        elif kind in ("tool_call", "tool_call_update"):
            self.flush()
            call = self.call(update)
            if update.get("status") in ENDED:
                self.end_call(call)
        elif kind == "plan":
            self._report(self.event("session/update", plan=update.get("entries")))
        elif kind == "usage_update":
            self.usage = {name: update[name] for name in ("used", "size", "cost") if name in update}

    def call(self, update):
        """Return everything that the agent has reported of a tool call, with this update."""
        known = self.calls.setdefault(str(update.get("toolCallId")), {})
        known.update({name: value for name, value in update.items() if value is not None and name != "sessionUpdate"})
        return known

    def end_call(self, call):
        self._report(self.event("session/update", toolCall=call))
        self.calls.pop(str(call.get("toolCallId")), None)

    def _add_chunk(self, kind, message_id, text):
        if (kind, message_id) != (self._kind, self._message_id):
            self.flush()
            self._kind, self._message_id = kind, message_id
        self._text += text

    def flush(self):
        """Report the text whose chunks have come so far."""
        if self._text.strip():
            self._report(self.event(f"session/{self._kind}", text=self._text, messageId=self._message_id))
            if self._kind == "said":
                self.answer = self._text
        self._kind = self._message_id = self._text = ""
