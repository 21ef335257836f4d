"""The web process: `python -m dashboard.processes.web FD…` serves the site on sockets that the supervisor opened.

daphne reads a whole body before any application code sees the request, and then loads it into memory. Here a body is
read no further than `body_limits.py` allows, and the application reads it from disk in pieces.
"""

import asyncio
import json
import logging
import socket
import sys
import tempfile
from functools import partial
from io import BytesIO
from urllib.parse import unquote

from daphne.http_protocol import HTTPFactory, WebRequest
from daphne.server import Server, reactor, twisted_loop

from dashboard.asgi import application  # sets Django up

from django.conf import settings  # isort:skip
from django.db import connection  # isort:skip

from dashboard.database import outages  # isort:skip
from dashboard.database.errors import is_away  # isort:skip
from dashboard.database.threads import query_in_thread  # isort:skip
from dashboard.workers import hints  # isort:skip
from dashboard.workers.loop_watch import LoopWatch  # isort:skip
from dashboard.workers.wakes import wake_feeds_here  # isort:skip
from dashboard.processes import body_limits  # isort:skip
from workspaces.host import parts  # isort:skip

logger = logging.getLogger("handrail.web")
CHUNK_BYTES = 64 * 1024
STOPPING = json.dumps(
    {
        "type": "about:blank",
        "title": "Not available",
        "status": 503,
        "detail": "This web stops. Ask again: what waits for a person goes on waiting.",
        "code": "stopping",
    }
).encode()
LINGER_SECONDS = 5  # a refused sender may go on sending before the connection is cut, so that it reads the response


class Request(WebRequest):
    """A request that counts the bytes of its body as they arrive."""

    limit, counted, disk_checked_at = body_limits.ANONYMOUS_LIMIT, 0, 0
    looking_up = None  # a task while the limit is being looked up
    limit_known = refused = complete = False

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self._parsePOSTFormSubmission = False  # twisted would read forms as well, which Django reads

    def gotLength(self, length):
        super().gotLength(length)
        # The channel drops both when the body is complete.
        self.request_method = self.channel._command.decode("latin-1")
        self.request_path = unquote(self.channel._path.partition(b"?")[0].decode("latin-1"))
        if length and length > self.limit:
            self._body_limit(length)

    def handleContentChunk(self, data):
        if self.refused:
            return
        self.counted += len(data)
        if self.counted > self.limit and not self.looking_up:
            self._body_limit(self.counted)
        elif self.counted - self.disk_checked_at > body_limits.DISK_CHECK_INTERVAL:
            self.disk_checked_at = self.counted
            self._or_refuse(lambda: body_limits.refuse_without_room(0))
        if self.refused:
            return
        try:
            super().handleContentChunk(data)
        except OSError:  # the disk that bodies are buffered on is full
            self._refuse(body_limits.BodyRefused(*body_limits.DISK_FULL))

    def process(self):
        """Handle the request; called when the body is complete."""
        if self.looking_up:
            self.complete = True
        elif not self.refused:
            super().process()

    def handle_exception(self, exception):
        """Cut the connection if a response has begun: whoever asked must not take a part for the whole, or wait.

        daphne would begin a second response, which fails, and would never again look whether an application failed.
        """
        if self._response_started:
            self.channel.transport.abortConnection()
        else:
            super().handle_exception(exception)

    @property
    def response_has_begun(self) -> bool:
        return self._response_started

    def ask_again(self):
        """Answer that this web stops. The hook of a connected agent asks again at once and finds its call."""
        head = [(b"content-type", b"application/problem+json"), (b"retry-after", b"1"), (b"connection", b"close")]
        self.handle_reply({"type": "http.response.start", "status": 503, "headers": head})
        self.handle_reply({"type": "http.response.body", "body": STOPPING})

    def _body_limit(self, size: int):
        if self.limit_known:
            self._or_refuse(lambda: body_limits.refuse_beyond(size, self.limit))
            return
        self.channel._networkProducer.pauseProducing()  # the rest stays with the sender
        self.looking_up = asyncio.ensure_future(self._apply_limit(size))

    async def _apply_limit(self, size: int):
        pairs = self.requestHeaders.getAllRawHeaders()
        headers = {name.decode("latin-1").lower(): values[-1].decode("latin-1") for name, values in pairs}
        try:
            about = self.request_method, self.request_path, headers
            self.limit = await body_limits.look_up(*about)
        except Exception as error:
            logger.exception("the sender of a body could not be determined")
            if is_away(error) and self.channel is not None:
                self._refuse(body_limits.BodyRefused(503, outages.WORDS))
        self.looking_up, self.limit_known = None, True
        if self.channel is None or self.refused:  # the sender has disconnected, or is told to ask again
            return
        self._or_refuse(lambda: body_limits.refuse_beyond(max(size, self.counted), self.limit))
        if not self.refused:
            self._or_refuse(lambda: body_limits.refuse_without_room(size))
        if self.refused:
            return
        self.channel._networkProducer.resumeProducing()
        if self.complete:
            self.process()

    def _or_refuse(self, check):
        try:
            check()
        except body_limits.BodyRefused as refused:
            self._refuse(refused)

    def _refuse(self, refused: body_limits.BodyRefused):
        self.refused = True
        self.content.close()
        self.content = BytesIO()
        transport = self.channel.transport
        transport.write(body_limits.answer(refused, self.request_path))
        transport.loseWriteConnection()
        self.channel._networkProducer.resumeProducing()
        reactor.callLater(LINGER_SECONDS, transport.abortConnection)


class Factory(HTTPFactory):
    def _updateLogDateTime(self):
        """Do not keep the time of twisted's access log, which nobody reads, up to date every second."""

    def buildProtocol(self, addr):
        protocol = super().buildProtocol(addr)
        protocol.requestFactory = Request
        return protocol


class Body:
    """The application's receive queue: the body in pieces from its file, then the connection's messages."""

    def __init__(self, content):
        self._content, self._later = content, asyncio.Queue()

    def put_nowait(self, message):
        if message["type"] != "http.request":  # daphne's body messages: the body is read from the file instead
            self._close()
            self._later.put_nowait(message)

    async def get(self):
        if self._content is None:
            return await self._later.get()
        piece = self._content.read(CHUNK_BYTES)
        more = len(piece) == CHUNK_BYTES
        if not more:
            self._close()
        return {"type": "http.request", "body": piece, "more_body": more}

    def _close(self):
        if self._content is not None:
            self._content.close()
            self._content = None


class WebServer(Server):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self._checking = {"application_checker", "timeout_checker"}  # which `run` begins

    def kill_all_applications(self):
        """Before the end, answer what is held: 503, so that who waits asks again, here or at another web."""
        for protocol in list(self.connections):
            if isinstance(protocol, Request) and not protocol.response_has_begun:
                protocol.ask_again()
        return super().kill_all_applications()

    # daphne's checkers come every second or two; these end when there is no connection, and begin with the next one.

    def protocol_connected(self, protocol):
        super().protocol_connected(protocol)
        for seconds, checker in ((1, self.application_checker), (2, self.timeout_checker)):
            if checker.__name__ not in self._checking:
                self._checking.add(checker.__name__)
                reactor.callLater(seconds, checker)

    def application_checker(self):
        self._while_connected(super().application_checker)

    def timeout_checker(self):
        self._while_connected(super().timeout_checker)

    def _while_connected(self, checker):
        if self.connections:
            checker()  # calls itself later
        else:
            self._checking.discard(checker.__name__)

    @property
    def http_factory(self) -> Factory:
        return self._factory

    @http_factory.setter
    def http_factory(self, made):
        self._factory = Factory(self)  # daphne creates its own and has no setting for another

    def create_application(self, protocol, scope):
        if scope["type"] != "http":
            return super().create_application(protocol, scope)
        body, protocol.content = Body(protocol.content), BytesIO()
        scope.setdefault("asgi", {"version": "3.0"})
        running = self.application(scope=scope, receive=body.get, send=partial(self.handle_reply, protocol))
        if protocol not in self.connections:
            return None
        self.connections[protocol]["application_instance"] = asyncio.ensure_future(running)
        return body


def serve(first: int, *more: int):
    """Serve until a signal ends the process. Each argument is the descriptor of a listening socket."""
    # The event loop shares the interpreter with worker threads: it waits at most this long for one of them.
    sys.setswitchinterval(0.001)
    # Buffer bodies on the disk of HANDRAIL_HOME, whose reserve is kept; the system's temporary folder may be memory.
    incoming = settings.HANDRAIL_HOME / "incoming"
    incoming.mkdir(mode=0o700, exist_ok=True)
    tempfile.tempdir = str(incoming)
    # daphne listens on one descriptor for each endpoint, and takes all of them for IPv4.
    server = WebServer(application, endpoints=[f"fd:fileno={first}"], verbosity=0)
    server.ready_callable = partial(_begin, server, more)
    watch = LoopWatch("web")
    watch.start(twisted_loop)
    try:
        server.run()
    finally:
        watch.stop()


def _begin(server: WebServer, more: tuple[int, ...]):
    """Listen on the other sockets too, and tell other hosts that this web is up, from now on."""
    for fd in more:
        _listen(server, fd)
    hints.listen_forever(hints.FEEDS, wake_feeds_here)
    if connection.vendor == "postgresql":
        server.beating = asyncio.ensure_future(_beat_forever())


async def _beat_forever():
    while True:
        await outages.patiently(partial(query_in_thread, parts.beat, "web"))
        await asyncio.sleep(parts.BEAT_S)


def _listen(server: Server, fd: int):
    with socket.socket(fileno=fd) as opened:
        reactor.adoptStreamPort(fd, opened.family, server.http_factory)


if __name__ == "__main__":
    serve(*map(int, sys.argv[1:]))
