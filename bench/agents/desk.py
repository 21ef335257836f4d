"""A desk on loopback that answers hooks as it should, or in one of the ways in which a desk can fail."""

import socket
import threading

from approvals.agents.dialect import ALLOW, DENY, Reply
from approvals.agents.hook_events import Before
from approvals.connect.proof import desk

REASON = "Not before Monday"
HELD = 5  # seconds
ANSWERS = {
    "500": (500, b"Internal Server Error"),
    "wrong token": (401, b'{"detail": "This token is invalid."}'),
    "empty 2xx": (200, b""),
    "{}": (200, b"{}"),
    "garbage": (200, b"\x00<html>not what was asked for"),
}
MODES = ("allowed", "denied", "held", "edited", "desk down", *ANSWERS, "cut off", "killed while it waits")


class Desk(desk.Desk):
    """`mode` is one of MODES."""

    def __init__(self, mode: str):
        self.mode, self.over = mode, threading.Event()
        super().__init__(self._reply)
        if mode == "desk down":
            self.leave()

    def stop(self):
        self.over.set()
        self.leave()

    def answer_call(self, dialect, heard: Before, handler):
        if self.mode in ("cut off", "killed while it waits"):
            self.over.wait(2 if self.mode == "killed while it waits" else 0)
            handler.connection.shutdown(socket.SHUT_RDWR)
        elif self.mode in ANSWERS:
            handler.send(*ANSWERS[self.mode])
        else:
            super().answer_call(dialect, heard, handler)

    def _reply(self, heard: Before) -> Reply:
        """Return a person's decision."""
        if self.mode == "denied":
            return Reply(DENY, REASON)
        if self.mode == "held":
            self.over.wait(HELD)
        if self.mode == "edited":
            command = heard.arguments["command"].replace("asked", "edited")
            return Reply(ALLOW, "Approved.", heard.arguments | {"command": command})
        return Reply(ALLOW, "Approved.", heard.arguments)
