"""JSON-RPC messages as lines of JSON, and the agent's process."""

import subprocess
import sys
import threading

import json_text

END_TIMEOUT = 5  # seconds for an agent to end once its input is closed, and again after SIGTERM


def line_writer(stream):
    """Return a function that writes one message as a line. After its reader has ended it writes nothing."""
    lock = threading.Lock()

    def write(message):
        with lock:
            try:
                stream.write(json_text.dumps(message).encode() + b"\n")
                stream.flush()
            except (OSError, ValueError):
                pass  # the reader's end is noticed by the thread that reads from it

    return write


def messages(stream):
    """Yield the messages of a stream. Lines that are not a JSON object are dropped, batches among them."""
    for line in stream:
        try:
            message = json_text.loads(line, parse_float=json_text.Digits)
        except (ValueError, RecursionError):
            message = None
        if isinstance(message, dict):
            yield message
        elif line.strip():
            print("handrail: dropped a line that is not a JSON-RPC message", file=sys.stderr)


def print_event(**fields):
    """Print a line for Handrail, which reads this program's output."""
    print(json_text.dumps(fields), flush=True)


class Agent:
    """The agent's process."""

    def __init__(self, argv, environment):
        self.process = subprocess.Popen(argv, stdin=-1, stdout=-1, env=environment)
        self.write = line_writer(self.process.stdin)

    def respond(self, message, **fields):
        """Respond to a request of the agent with `result` or `error`."""
        self.write({"jsonrpc": "2.0", "id": message["id"], **fields})

    def end(self):
        """Close its input, then send SIGTERM and SIGKILL: some agents ignore SIGTERM."""
        try:
            self.process.stdin.close()
        except OSError:
            pass
        for send_signal in (self.process.terminate, self.process.kill):
            try:
                self.process.wait(END_TIMEOUT)
                return
            except subprocess.TimeoutExpired:
                send_signal()
        self.process.wait()
