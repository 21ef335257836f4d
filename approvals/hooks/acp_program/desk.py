"""Ask Handrail, and tell it what happens, with one process for each: its end is an answer, whatever ended it."""

import json
import queue
import subprocess
import sys
import threading

LEAVE = 10  # seconds to tell the rest at the end
PATIENCE = 3  # seconds for which a question waits for what is told before it


class Desk:
    """Asks Handrail, and tells it, with one process of the hook's program each; what is told keeps its order."""

    def __init__(self, connection, dialect):
        self._line = [sys.executable, "-IS", sys.argv[0], connection]
        self.dialect = dialect
        self._told = queue.Queue()
        self._teller = threading.Thread(target=self._tell, daemon=True)
        self._teller.start()

    def ask(self, event, started):
        """Return (whether it is allowed, why). `started` gets the process, whose end is a denial."""
        told = json.dumps({**event, "dialect": self.dialect}).encode()
        before = threading.Event()  # what was said before it stands before it in the conversation
        self._told.put(before)
        before.wait(PATIENCE)
        process = subprocess.Popen([*self._line, "gate", "acp"], stdin=-1, stdout=-1, stderr=-1)
        started(process)
        out, err = process.communicate(told)
        try:
            answer = json.loads(out) if process.returncode == 0 else {}
        except ValueError:
            answer = {}
        answer = answer if isinstance(answer, dict) else {}
        words = answer.get("reason") or err.decode("utf-8", "replace").strip() or "Handrail gave no answer."
        return answer.get("decision") == "allow", words

    def tell(self, event):
        self._told.put({**event, "dialect": self.dialect})

    def _tell(self):
        while (event := self._told.get()) is not None:
            if isinstance(event, threading.Event):
                event.set()
                continue
            subprocess.run(
                [*self._line, "report", "acp"], input=json.dumps(event).encode(), stdout=-3, stderr=-3, check=False
            )

    def close(self):
        """Wait until everything is told, or for LEAVE seconds."""
        self._told.put(None)
        self._teller.join(LEAVE)
