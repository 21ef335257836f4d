"""One HTTP request of an MCP client: passed on as it is, or held if it is a call."""

import http.client
import select
import socket
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

from handrail_client import json_text
from handrail_client.actions import Action
from handrail_client.mcp import headers, messages, protocol
from handrail_client.mcp.gate import BATCHED, TAKEN
from handrail_client.mcp.held_call import HeldCall
from handrail_client.mcp.identity import Definition
from handrail_client.mcp.questions import NO_NAME, ToolCall
from handrail_client.mcp.upstream import BROKEN, NOT_PASSED_ON, PIECE, event_of, events_of, is_stream, message_of

MAX_BODY = 64 << 20  # bytes
STREAM = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
    "Connection": "close",
}
LOCAL = ("127.0.0.1", "localhost")
AWAY = "The MCP server does not answer: {}"
LOST = "The call was approved, and its answer was lost: {}"


class Request(BaseHTTPRequestHandler):
    """`server.gate` is the HttpGate."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def do_GET(self):
        self._serve(None)

    do_DELETE = do_GET

    def do_POST(self):
        length = self.headers.get_all("Content-Length") or []
        if self.headers.get("Transfer-Encoding") or len(length) != 1 or not length[0].isdigit():
            self._refuse(411, "Send the length of the body.", close=True)
        elif int(length[0]) > MAX_BODY:
            self._refuse(413, "The message is too large.", close=True)
        else:
            self._serve(self.rfile.read(int(length[0])))

    # What may pass ----------------------------------------------------------------------------------------------------

    def _serve(self, body: bytes | None):
        self.gate, self.is_streaming = self.server.gate, False
        self.mcp_session = self.headers.get("Mcp-Session-Id") or ""
        if not self._is_of_this_machine() or urlsplit(self.path).path not in ("/", self.gate.upstream.path):
            self._refuse(403 if not self._is_of_this_machine() else 404, "This is the address of another server.")
            return
        if body is None:
            self._pass_on(None)
            return
        try:
            message = messages.read(body)
            self._check_headers(message)
        except messages.Unreadable as error:
            self._answer(400, messages.error(None, error.code, str(error)))
            return
        except headers.Mismatch as error:
            self._mismatch(message, error)
            return
        if isinstance(message, list) and any(map(messages.is_call, message)):
            self._answer(400, messages.error(None, messages.INVALID_REQUEST, BATCHED))
        elif messages.is_call(message):
            self._call(message, body)
        elif self._withdraws(message):
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            checked = self.gate.asked_back.checked(self.mcp_session, message, list(self.gate.running.values()))
            self._pass_on(body if checked == message else messages.line_of(checked))

    def _is_of_this_machine(self) -> bool:
        """Whether no page of another host sends this, through a name of its own or by itself."""
        host, origin = self.headers.get("Host") or "", self.headers.get("Origin")
        return urlsplit(f"//{host}").hostname in LOCAL and (not origin or urlsplit(origin).hostname in LOCAL)

    def _check_headers(self, message: Any):
        """Raise Unreadable for headers by which a server could read the body as something else."""
        if (self.headers.get_content_charset() or "utf-8").lower() not in ("utf-8", "utf8"):
            raise messages.Unreadable(messages.PARSE_ERROR, "The body must be UTF-8.")
        if self.headers.get("Content-Encoding"):
            raise messages.Unreadable(messages.PARSE_ERROR, "The body must not be compressed.")
        headers.check(self.headers.items(), message)

    def _mismatch(self, message: Any, error: headers.Mismatch):
        message_id = message.get("id") if isinstance(message, dict) else None
        self._answer(400, messages.error(message_id, protocol.HEADER_MISMATCH, str(error)))

    def _withdraws(self, message: Any) -> bool:
        is_cancel = isinstance(message, dict) and message.get("method") == "notifications/cancelled"
        return is_cancel and self.gate.withdraw(self.mcp_session, message)

    # A call -----------------------------------------------------------------------------------------------------------

    def _call(self, message: dict, body: bytes):
        owner = f"{self.mcp_session} {self.headers.get('Authorization') or ''}"
        call = ToolCall(message, body, owner)
        if not call.is_well_formed:
            self._answer(400, messages.error(message.get("id"), messages.INVALID_PARAMS, NO_NAME))
            return
        try:
            question = self.gate.questions.of(call, lambda: self._checked_definition(call))
        except headers.Mismatch as error:
            self._mismatch(message, error)
            return
        if question is None:
            self._answer(200, call.refusal(None))
        elif not self.gate.hold(self.mcp_session, message["id"], question):
            self._answer(400, messages.error(message["id"], messages.INVALID_REQUEST, TAKEN))
        else:
            self._stream_answer(question, call)

    def _checked_definition(self, call: ToolCall) -> Definition:
        found = self._definition(call)
        headers.check(self.headers.items(), call.message, found.input_schema)
        return found

    def _definition(self, call: ToolCall) -> Definition:
        """Ask the server how it describes the tool now, in the name of this request's client and session."""

        def page(params: dict) -> Any:
            asked = {"jsonrpc": "2.0", "id": next(self.gate.numbers), "method": "tools/list"}
            asked |= {"params": protocol.params_like(call.message, params)}
            return self.gate.upstream.ask(headers.anew(self.headers.items(), asked), asked)

        return Definition.read(call.name, page)

    def _stream_answer(self, question: HeldCall, call: ToolCall):
        sent: list = []
        tell_client = call.teller(lambda note: notes.append(event_of(note)))
        notes: list[bytes] = []

        def tell(action: Action):
            tell_client(action)
            if not self._is_there(notes.pop() if notes else b": waits\n\n"):
                question.withdraw()

        def go(used: Action):
            call.used = used
            named = self.headers.items()
            if call.is_changed:
                named = headers.anew(named, call.message_to_server, call.definition.input_schema)
            self.gate.running[id(call)] = call
            try:
                sent.append(self.gate.upstream.send("POST", named, call.to_server))
            except BROKEN as error:
                sent.append(error)

        def still() -> bool:
            return self._definition(call).sha256 == call.definition.sha256

        try:
            refused = question.settle(go, tell, still)
        finally:
            self.gate.let_go(self.mcp_session, call.message["id"], question)
        try:
            if refused is not None:
                self._answer(200, call.refusal(refused))
            elif sent:
                self._relay_call(call, sent[0])
            else:
                self.close_connection = True  # withdrawn: there is no answer to a cancelled request
        finally:
            self.gate.running.pop(id(call), None)

    def _is_there(self, note: bytes) -> bool:
        """Tell a client that takes a stream that its call waits; return whether the client is still connected."""
        try:
            readable, _, _ = select.select([self.connection], [], [], 0)
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                return False
            if "text/event-stream" in (self.headers.get("Accept") or ""):
                self._stream()
                self._write(note)
        except OSError:
            return False
        return True

    def _stream(self):
        if not self.is_streaming:
            self.is_streaming, self.close_connection = True, True
            self.send_response(200)
            for name, value in STREAM.items():
                self.send_header(name, value)
            self.end_headers()

    def _relay_call(self, call: ToolCall, sent):
        """Pass the server's answer to an approved call on, and report how it ended."""
        if isinstance(sent, BaseException):
            self._failed(call, AWAY.format(sent))
            return
        try:
            answer = sent.getresponse()
            if is_stream(answer) and answer.status < 300:
                self._stream()
                ends = [self._relay(event, message_of(event), call) for event in events_of(answer)]
                if not any(ends):
                    raise http.client.IncompleteRead(b"")
            else:
                self._relay_body(call, answer.status, answer.read())
        except BROKEN as error:
            self.gate.questions.reports.tell(call.used, False, LOST.format(error))
            self.close_connection = True
        finally:
            sent.close()

    def _relay_body(self, call: ToolCall, status: int, body: bytes):
        """Pass one answer on. An error with its reason goes to the client as it is: it may mend its request by it."""
        found = _parsed(body)
        if status >= 300:
            if not isinstance(found, dict) or not isinstance(found.get("error"), dict):
                self._failed(call, f"The MCP server answered {status}.")
                return
            found |= {"id": call.message["id"]}
            body = messages.line_of(found)
        if _answers(found, call):
            told = self.gate.questions.ended(call, found)
            self._answer(status, body if told is None else told)
        else:
            self._failed(call, "The MCP server answered something else.")

    def _relay(self, event: bytes, message: Any, call: ToolCall) -> bool:
        """Pass a piece of a stream on; return whether it is the answer."""
        is_answer = _answers(message, call)
        self.gate.asked_back.note(self.mcp_session, message, [call])
        told = self.gate.questions.ended(call, message) if is_answer else None
        self._write(event if told is None else event_of(told))
        return is_answer

    def _failed(self, call: ToolCall, words: str):
        self.gate.questions.reports.tell(call.used, False, words)
        self._answer(200, call.refusal(words))

    # Answers ----------------------------------------------------------------------------------------------------------

    def _pass_on(self, body: bytes | None):
        try:
            connection = self.gate.upstream.send(self.command, self.headers.items(), body)
        except BROKEN as error:
            self._refuse(502, AWAY.format(error))
            return
        try:
            answer = connection.getresponse()
            if 300 <= answer.status < 400:
                self._refuse(502, "The MCP server leads elsewhere, where calls would not be held.")
            else:
                self._copy(answer)
        except BROKEN:
            self.close_connection = True
        finally:
            connection.close()

    def _copy(self, answer: http.client.HTTPResponse):
        self.close_connection = True
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in NOT_PASSED_ON:
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        while piece := answer.read1(PIECE):
            self._write(piece)

    def _answer(self, status: int, message: dict | bytes):
        body = message if isinstance(message, bytes) else messages.line_of(message)
        if self.is_streaming:
            found = message if isinstance(message, dict) else _parsed(message)
            self._write(event_of(found))
            return
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self._write(body)

    def _refuse(self, status: int, words: str, *, close: bool = False):
        self.close_connection = self.close_connection or close
        self.is_streaming = False
        self._answer(status, messages.error(None, messages.INVALID_REQUEST, words))

    def _write(self, data: bytes):
        self.wfile.write(data)
        self.wfile.flush()


def _answers(message: Any, call: ToolCall) -> bool:
    is_answer = isinstance(message, dict) and "method" not in message and "id" in message
    return is_answer and messages.key_of(message["id"]) == messages.key_of(call.message["id"])


def _parsed(body: bytes) -> Any:
    try:
        return json_text.loads_as_written(body)
    except (ValueError, RecursionError):
        return None
