"""One HTTP request of an MCP client: passed on as it is, or held if it is a call."""

import http.client
import itertools
import json
import select
import socket
import threading
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

from handrail_client.actions import Action
from handrail_client.gated_calls import edit_notice
from handrail_client.mcp import messages
from handrail_client.mcp.gate import BATCHED, NO_NAME, TAKEN
from handrail_client.mcp.held_call import HeldCall
from handrail_client.mcp.identity import Definitions
from handrail_client.mcp.upstream import BROKEN, NOT_PASSED_ON, PIECE, event_of, events_of, is_stream, message_of

MAX_BODY = 64 << 20  # bytes
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
        if isinstance(message, list) and any(map(messages.is_call, message)):
            self._answer(400, messages.error(None, messages.INVALID_REQUEST, BATCHED))
        elif messages.is_call(message):
            self._call(message, body)
        elif self._withdraws(message):
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self._pass_on(body)

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
        named = self.headers.get_all("Mcp-Method") or []
        if any(not isinstance(message, dict) or each != message.get("method") for each in named):
            raise messages.Unreadable(messages.INVALID_REQUEST, "The header Mcp-Method names another method.")

    def _withdraws(self, message: Any) -> bool:
        is_cancel = isinstance(message, dict) and message.get("method") == "notifications/cancelled"
        return is_cancel and self.gate.withdraw(self.mcp_session, message)

    # A call -----------------------------------------------------------------------------------------------------------

    def _call(self, message: dict, body: bytes):
        params = message.get("params")
        name, given = (params.get("name"), params.get("arguments")) if isinstance(params, dict) else (None, None)
        given = {} if given is None else given
        if "id" not in message or not isinstance(name, str) or not name or not isinstance(given, dict):
            self._answer(400, messages.error(message.get("id"), messages.INVALID_PARAMS, NO_NAME))
            return
        definitions = self._definitions()
        seen = definitions.sha256(name)
        served = {"runs": self.gate.server.runs, "sha256": self.gate.server.sha256, "tool_sha256": seen}
        more = {"mcp": served, "input_schema": definitions.schema(name), "call_id": str(message["id"])[:200]}
        more |= {"session": self.gate.session} if self.gate.session else {}
        call = HeldCall(self.gate.desk, self.gate.server.tool(name), given, **more)
        if not self.gate.hold(self.mcp_session, message["id"], call):
            self._answer(400, messages.error(message["id"], messages.INVALID_REQUEST, TAKEN))
            return
        self._hold(call, message, body, lambda: self._definitions().sha256(name) == seen)

    def _definitions(self) -> Definitions:
        """Ask the server how it describes its tools now, in the name of this request's session."""
        found = Definitions()
        found.learn({"tools": self.gate.upstream.tools(self.headers.items(), self.gate.numbers)})
        return found

    def _hold(self, call: HeldCall, message: dict, body: bytes, still):
        token, steps = messages.progress_token(message), itertools.count(1)
        sent: list = []

        def tell(action: Action):
            words = f"Waits for approval as {action.name}: {action.url}"
            note = b": waits\n\n" if token is None else event_of(messages.progress(token, next(steps), words))
            if not self._is_there(note):
                call.withdraw()

        def go(used: Action):
            same = not used.is_edited and used.arguments == message["params"].get("arguments", {})
            edited = message | {"params": message["params"] | {"arguments": used.arguments}}
            try:
                line = body if same else messages.line_of(edited)
                sent.extend([used, self.gate.upstream.send("POST", self.headers.items(), line)])
            except BROKEN as error:
                sent.extend([used, error])

        try:
            refused = call.settle(go, tell, still)
        finally:
            self.gate.let_go(self.mcp_session, message["id"], call)
        if refused is not None:
            self._answer(200, messages.said(message["id"], refused, is_error=True))
        elif sent:
            self._relay_call(message["id"], *sent)
        else:
            self.close_connection = True  # withdrawn: there is no answer to a cancelled request

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
            for name, value in (("Content-Type", "text/event-stream"), ("Cache-Control", "no-cache")):
                self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()

    def _relay_call(self, message_id: Any, used: Action, sent):
        """Pass the server's answer to an approved call on, and report how it ended."""
        if isinstance(sent, BaseException):
            self._report(used, False, AWAY.format(sent))
            self._answer(200, messages.said(message_id, AWAY.format(sent), is_error=True))
            return
        try:
            answer = sent.getresponse()
            if answer.status >= 300:
                words = f"The MCP server answered {answer.status}."
                self._report(used, False, words)
                self._answer(200, messages.said(message_id, words, is_error=True))
            elif is_stream(answer):
                self._stream()
                for event in events_of(answer):
                    self._write(self._told(event, message_of(event), message_id, used, event_of))
            else:
                body = answer.read()
                told = self._told(body, _parsed(body), message_id, used, messages.line_of)
                self._answer(answer.status, told)
        except BROKEN as error:
            self._report(used, False, LOST.format(error))
            self.close_connection = True
        finally:
            sent.close()

    def _told(self, raw: bytes, message: Any, message_id: Any, used: Action, form) -> bytes:
        """Return what the client gets for a piece of the answer: the same, or with the notice of an edit."""
        is_answer = isinstance(message, dict) and "method" not in message and "id" in message
        if not is_answer or messages.key_of(message["id"]) != messages.key_of(message_id):
            return raw
        result, notice = message.get("result"), edit_notice(used)
        is_good = isinstance(result, dict) and not result.get("isError")
        self._report(used, is_good, "" if is_good else "The server answered with an error.")
        if not notice or not isinstance(result, dict) or not isinstance(result.get("content"), list):
            return raw
        content = [{"type": "text", "text": notice}, *result["content"]]
        return form(message | {"result": result | {"content": content}})

    def _report(self, used: Action, succeeded: bool, note: str):
        threading.Thread(target=self.gate.desk.report_quietly, args=(used, succeeded, note), daemon=True).start()

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


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
