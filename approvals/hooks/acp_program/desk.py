"""Ask Handrail and report to it. Each message is sent by a process of `command_hook.py`, which fails closed."""

import json
import os
import queue
import subprocess
import sys
import threading

import json_text

CLOSE_TIMEOUT = 10  # seconds to send the remaining reports
ORDER_TIMEOUT = 3  # seconds that a question waits for the reports before it


def own_interpreter():
    """Return the words that started Python itself: in a container its loader stands before it."""
    try:
        with open("/proc/self/cmdline", "rb") as file:
            words = [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
    except OSError:  # no Linux
        return [sys.executable]
    is_loaded = sys.executable in words
    return words[: words.index(sys.executable) + 1] if is_loaded else [sys.executable]


class Desk:
    """Sends reports one after another, so that the conversation keeps its order."""

    def __init__(self, connection, dialect):
        self._command = [*own_interpreter(), "-IS", sys.argv[0], connection]
        self._dialect = dialect
        self._reports = queue.Queue()
        self._sender = threading.Thread(target=self._send, daemon=True)
        self._sender.start()

    def ask(self, event, started):
        """Return (whether the call is allowed, the reason). `started` gets the process; ending it denies the call."""
        reports_sent = threading.Event()
        self._reports.put(reports_sent)
        reports_sent.wait(ORDER_TIMEOUT)
        process = subprocess.Popen([*self._command, "gate", "acp"], stdin=-1, stdout=-1, stderr=-1)
        started(process)
        out, err = process.communicate(self._encoded(event))
        try:
            answer = json.loads(out) if process.returncode == 0 else {}
        except ValueError:
            answer = {}
        answer = answer if isinstance(answer, dict) else {}
        reason = answer.get("reason") or err.decode("utf-8", "replace").strip() or "Handrail gave no answer."
        return answer.get("decision") == "allow", reason

    def report(self, event):
        self._reports.put(self._encoded(event))

    def _encoded(self, event):
        return json_text.dumps({**event, "dialect": self._dialect}).encode()

    def _send(self):
        while (report := self._reports.get()) is not None:
            if isinstance(report, threading.Event):
                report.set()
                continue
            subprocess.run([*self._command, "report", "acp"], input=report, stdout=-3, stderr=-3, check=False)

    def close(self):
        """Wait until the reports are sent, at most CLOSE_TIMEOUT seconds."""
        self._reports.put(None)
        self._sender.join(CLOSE_TIMEOUT)
