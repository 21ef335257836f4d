"""The gate before a server that speaks streamable HTTP: an address of this machine in the place of the server's."""

import itertools
import signal
import sys
import threading
import uuid
from http.server import ThreadingHTTPServer
from typing import Any

from handrail_client.desk import Handrail
from handrail_client.errors import HandrailError
from handrail_client.mcp import messages, protocol
from handrail_client.mcp.asked_back import AskedBack
from handrail_client.mcp.held_call import TOLD_WITHIN, HeldCall
from handrail_client.mcp.http_requests import Request
from handrail_client.mcp.identity import Server
from handrail_client.mcp.questions import Questions, ToolCall
from handrail_client.mcp.upstream import Upstream


class HttpGate:
    """What the requests of all clients share."""

    def __init__(self, desk: Handrail, url: str, *, name: str | None = None, session: str = ""):
        self.upstream = Upstream(url)
        self.questions = Questions(desk, Server.of_address(url, name), session)
        self.numbers = (f"handrail-{uuid.uuid4()}-{number}" for number in itertools.count(1))
        self._lock = threading.Lock()
        self._held: dict[tuple[str, str], HeldCall] = {}
        self._all: set[HeldCall] = set()
        self.asked_back = AskedBack(desk)
        self.running: dict[int, ToolCall] = {}  # calls that the server has, by their identity

    def hold(self, session: str, message_id: Any, call: HeldCall) -> bool:
        """Remember the call; False if the session has one with this id that waits."""
        key = (session, messages.key_of(message_id))
        with self._lock:
            if session and key in self._held:
                return False
            self._held[key] = call
            self._all.add(call)
            return True

    def let_go(self, session: str, message_id: Any, call: HeldCall):
        key = (session, messages.key_of(message_id))
        with self._lock:
            self._all.discard(call)
            if self._held.get(key) is call:
                del self._held[key]

    def withdraw(self, session: str, message: Any) -> bool:
        """Withdraw the call that the message cancels. Without a session nobody knows whose it is: then False."""
        key = (session, messages.key_of(protocol.params_of(message).get("requestId")))
        with self._lock:
            call = self._held.get(key) if session else None
        return call is not None and call.withdraw()

    def withdraw_all(self):
        with self._lock:
            calls = list(self._all)
        threads = [threading.Thread(target=call.withdraw, kwargs={"wait": True}, daemon=True) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


class Listener(ThreadingHTTPServer):
    """Serves clients, each request in a thread of its own."""

    daemon_threads = True

    def __init__(self, host: str, port: int, gate: HttpGate):
        self.gate = gate
        super().__init__((host, port), Request)

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)  # a client that goes away is no error


def run(desk: Handrail, url: str, listen: str, *, name: str | None = None, session: str = "") -> int:
    """Serve clients at `listen`, HOST:PORT, until a signal comes."""
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdigit() or host not in ("127.0.0.1", "localhost"):
        raise HandrailError(f"--listen must be like 127.0.0.1:8765, and is {listen!r}.")
    gate = HttpGate(desk, url, name=name, session=session)
    listener = Listener("127.0.0.1", int(port), gate)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: threading.Thread(target=listener.shutdown, daemon=True).start())
    print(f"handrail: http://127.0.0.1:{listener.server_port}{gate.upstream.path}", file=sys.stderr, flush=True)
    listener.serve_forever()
    gate.withdraw_all()
    gate.questions.give_up()
    gate.questions.reports.wait(TOLD_WITHIN)
    listener.server_close()
    return 0
