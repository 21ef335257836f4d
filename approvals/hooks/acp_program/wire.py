"""Messages in lines of JSON, and the agent's process at the other end of them."""

import json
import subprocess
import sys
import threading

PATIENCE = 5  # seconds for an agent to end by itself, and again after SIGTERM


def writer(stream):
    lock = threading.Lock()

    def write(message):
        with lock:
            try:
                stream.write(json.dumps(message).encode() + b"\n")
                stream.flush()
            except (OSError, ValueError):
                pass  # its reader has ended; that is noticed where it is read

    return write


def messages(stream):
    """Yield the objects of a stream. A line that is anything else reaches nobody."""
    for line in stream:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if isinstance(message, dict):
            yield message
        elif line.strip():
            print("handrail: a line that is no message was dropped", file=sys.stderr)


class Agent:
    """The agent's process, and the requests that it was sent."""

    def __init__(self, argv, environment):
        self.process = subprocess.Popen(argv, stdin=-1, stdout=-1, env=environment)
        self.write = writer(self.process.stdin)

    def answer(self, message, **told):
        self.write({"jsonrpc": "2.0", "id": message["id"], **told})

    def end(self):
        """Close its input, then help it to end: some agents do not end by SIGTERM."""
        try:
            self.process.stdin.close()
        except OSError:
            pass
        for signal_it in (self.process.terminate, self.process.kill):
            try:
                self.process.wait(PATIENCE)
                return
            except subprocess.TimeoutExpired:
                signal_it()
        self.process.wait()


def show(**told):
    """Print a line for Handrail, which reads this program's output."""
    print(json.dumps(told), flush=True)
