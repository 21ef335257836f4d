"""The hook command of a connected agent: ask Handrail, print its response, and fail closed.

Standard library only, Python 3.9 and later. Claude Code runs `python -IS command_hook.py CONNECTION gate` before a
tool and `… report` for events that are only recorded. As a gate it exits with 2 on any failure, which every agent takes
as a denial. A report that cannot be delivered exits with 1: after Stop, a 2 would keep the agent from stopping.

CONNECTION is a file, `run:ADDRESS` in a workspace, or `env`. Other agents run `… CONNECTION gate AGENT`, with the
event's name after it if the event does not tell it. This program knows none of their formats: Handrail puts the text
to print into an envelope, and says whether it decides.
"""

# Every tool call waits for these imports: `socket`, `threading`, `json` and `http.client` would take longer than all
# others together.
import _socket as socket
import _thread
import os
import select
import sys
import time

BLOCK, NOT_DELIVERED = 2, 1
CONNECT_TIMEOUT = 10  # seconds
FIRST_CONTACT = 30  # seconds for which a gate retries until Handrail has accepted the call
WORKSPACE_PATIENCE = 86_400 - 600  # ends before the agent's own time-out, after which the tool would run
REPORT_CONTACT = 20  # seconds for which a report retries until Handrail has accepted it
REPORT_TIMEOUT = 50  # a report that Handrail holds while its database is away; the agents' own time-out is 60
PROMPT_TIMEOUT = 2  # for a report that a person at the terminal waits for
# Seconds. A connection that stayed open this long after the call was sent was held by Handrail, to wait for a person.
HELD = 1.0
RESTARTING = (502, 503, 504)  # statuses that a proxy returns while Handrail is down
WATCH_INTERVAL = 0.5
# Besides a denial, these tools only get a response without a decision: Claude Code asks at its own terminal then.
ASKS_ITS_OWN_PERSON = ("ExitPlanMode", "AskUserQuestion")
EXIT_STATUS = "handrail_exit_status"  # of a shell call, in the event that is sent
TRANSCRIPT_TAIL = 4 << 20  # bytes of a transcript that are searched for it
ELICITATION, GO_ON = "Elicitation", {"continue": True}


class NoAnswer(Exception):
    pass


class JSONRules:
    """What `json.JSONDecoder` gives to the scanner of JSON that CPython has in C."""

    strict, object_hook, object_pairs_hook, memo = True, None, None, {}
    parse_float, parse_int = float, int
    parse_constant = {"-Infinity": float("-inf"), "Infinity": float("inf"), "NaN": float("nan")}.__getitem__


def read_json(raw: bytes):
    """Parse JSON as `json.loads` does, without the 7 ms that importing `json` takes. ValueError."""
    text = raw.decode("utf-8").strip(" \t\n\r")
    try:
        from _json import make_scanner

        scan = make_scanner(JSONRules)
    except (ImportError, AttributeError, TypeError):  # not CPython, or one whose scanner wants more
        from json import loads

        return loads(text)
    try:
        value, end = scan(text, 0)
    except (StopIteration, SystemError):  # the latter because the scanner takes its error from the module `json`
        raise ValueError("not JSON") from None
    if end != len(text):
        raise ValueError("more than one value")
    return value


def main(arguments) -> int:
    # The role comes from the settings line, not from the event: a newer Claude Code may rename its events, and that
    # must not turn the gate into a report.
    gate = arguments[1:2] != ["report"]
    fail = refuse if gate else give_up
    try:
        call = sys.stdin.buffer.read()
        event = read_json(call)
        if not concerns([word[len("below=") :] for word in arguments[2:] if word.startswith("below=")], event):
            return 0  # of a session elsewhere, which its user's settings lead here
        arguments = [word for word in arguments if not word.startswith("below=")]
        connection = read_connection(arguments[0])
        connection["agent"], connection["event"] = [*arguments[2:4], "", ""][:2]
        if not gate:
            call = with_exit_status(call, event)
        is_prompt = not connection["agent"] and event["hook_event_name"] == "UserPromptSubmit"
        report_timeout = PROMPT_TIMEOUT if is_prompt else REPORT_TIMEOUT
        address, patience = connection["address"], connection["patience_s"] if gate else report_timeout
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        return fail(f"Handrail's hook cannot read its connection or the call ({error}), so nothing is allowed.")
    watch_reader()
    try:
        body = post_until_answered(connection, call, patience, min(patience, FIRST_CONTACT if gate else REPORT_CONTACT))
        answer = read_json(body)
    except NoAnswer as error:
        return fail(
            f"Handrail does not respond at {address} ({error}), so nothing is allowed. A person can start it with "
            "`make up`."
        )
    except ValueError:
        answer = None
    if connection["agent"]:
        body = in_envelope(answer, gate)
    elif not (is_verdict(answer, event) if gate else isinstance(answer, dict)):
        body = None
    if body is None:
        return fail("Handrail's response is invalid, so nothing is allowed.")
    sys.stdout.buffer.write(body)
    sys.stdout.buffer.flush()
    return 0


def with_exit_status(call: bytes, event) -> bytes:
    """Return the event after a shell call with the exit status that the session's transcript has of it, if any.

    Codex writes it there before it runs the hook, to which it does not tell it.
    """
    call_id, transcript = event.get("tool_use_id"), event.get("transcript_path")
    if not call_id or not isinstance(call_id, str) or not isinstance(transcript, str) or EXIT_STATUS in event:
        return call
    status = exit_status_in(transcript, call_id)
    return call if status is None else call.rstrip()[:-1] + f',"{EXIT_STATUS}":{status}}}'.encode()


def exit_status_in(transcript: str, call_id: str):
    """Return the exit status that the end of a transcript has of a call; None without one."""
    try:
        with open(transcript, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TRANSCRIPT_TAIL))
            lines = file.read(TRANSCRIPT_TAIL).split(b"\n")
        for line in reversed(lines):
            if b'"exit_code"' in line and call_id.encode() in line:
                item = read_json(line)["payload"]["item"]
                if item["id"] == call_id:
                    return item["exit_code"] if type(item["exit_code"]) is int else None
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def read_connection(name: str):
    """Return the connection in the file, or that of a workspace's programs. OSError, ValueError, KeyError."""
    if name == "env":
        address, token = os.environ["HANDRAIL_URL"], os.environ["HANDRAIL_TOKEN"]
        return {"address": address, "token": token, "patience_s": WORKSPACE_PATIENCE}
    if name.startswith("run:"):
        return {"address": name[len("run:") :], "token": token_of_run(), "patience_s": WORKSPACE_PATIENCE}
    with open(name, "rb") as file:
        return read_json(file.read())


def concerns(folders, event) -> bool:
    """Return whether the session started or works in one of these connected folders, or in a worktree of it.

    Without a folder, or a place that is known, it does.
    """
    places = [os.environ.get("CLAUDE_PROJECT_DIR"), event.get("cwd"), os.getcwd()]
    known = [os.path.realpath(place) for place in places if isinstance(place, str) and place]
    near = (is_below(place, folder) or is_worktree(place, folder) for place in known for folder in folders)
    return not folders or not known or any(near)


def is_below(place: str, folder: str) -> bool:
    return place == folder or place.startswith(folder.rstrip("/") + "/")


def is_worktree(place: str, folder: str) -> bool:
    """Return whether the place is in a linked worktree of a repository below the folder."""
    while place != os.path.dirname(place):
        try:
            with open(os.path.join(place, ".git"), encoding="utf-8", errors="surrogateescape") as file:
                named = file.read(4096).partition("gitdir:")[2].strip()
            return is_below(os.path.realpath(os.path.join(place, named)), folder)
        except OSError:  # a folder, or none
            place = os.path.dirname(place)
    return False


def token_of_run() -> str:
    """Return the token of a Run's programs: this one's, or its parent's, as `env -i` hands nothing on. KeyError.

    On the command line every user of the host could read it.
    """
    if token := os.environ.get("HANDRAIL_TOKEN"):
        return token
    with open(f"/proc/{os.getppid()}/environ", "rb") as file:
        variables = dict(entry.partition(b"=")[::2] for entry in file.read().split(b"\0"))
    return variables[b"HANDRAIL_TOKEN"].decode("ascii")


def post_until_answered(connection, call: bytes, patience: float, first_contact: float) -> bytes:
    """Send the call until there is a response, and return its body. Raise NoAnswer.

    A restart of Handrail while the call waits for a person is harmless: the same event sent again finds its action.
    Both times are in seconds.
    """
    began, pause, held = time.monotonic(), 0.25, False
    while True:
        sent_at = []
        try:
            return post(connection, call, began + patience - time.monotonic(), sent_at)
        except OSError as error:
            held = held or bool(sent_at and time.monotonic() - sent_at[0] >= HELD)
            left = began + (patience if held else first_contact) - time.monotonic()
            if left <= pause:
                raise NoAnswer(str(error) or type(error).__name__) from None
        time.sleep(pause)
        pause = min(2 * pause, 5)


def post(connection, call: bytes, timeout: float, sent_at: list) -> bytes:
    """Send one request, ignoring proxy variables and redirects, and return the body. OSError may be retried."""
    scheme, _, rest = connection["address"].partition("://")
    netloc, _, path = rest.partition("/")
    agent = connection["agent"] or "claude-code"
    head = (
        f"POST {'/' + path if path else ''}/hooks/{agent} HTTP/1.0\r\nHost: {netloc}\r\n"
        f"Authorization: Bearer {connection['token']}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(call)}\r\n"
    )
    if connection["agent"]:
        head += f"Prefer: handrail-envelope\r\nX-Handrail-Event: {connection['event']}\r\n"
    head += "\r\n"
    server = connected(scheme, netloc, min(timeout, CONNECT_TIMEOUT))
    try:
        server.settimeout(max(timeout, 0.1))
        server.sendall(head.encode("ascii") + call)
        sent_at.append(time.monotonic())
        answer = b"".join(iter(lambda: server.recv(1 << 16), b""))  # HTTP/1.0: until the server closes
    finally:
        server.close()
    status, body = read_answer(answer)
    if status in RESTARTING:
        raise ConnectionError(f"status {status}")
    if status != 200:
        raise NoAnswer(f"status {status}")
    return body


def connected(scheme: str, netloc: str, timeout: float):
    """Return a connection to `netloc`, a host and maybe a port as in a URL. OSError."""
    host, colon, port = netloc.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = netloc, "443" if scheme == "https" else "80"
    host, port = host.strip("[]"), int(port)
    if scheme == "https":
        from socket import create_connection
        from ssl import create_default_context

        return create_default_context().wrap_socket(create_connection((host, port), timeout), server_hostname=host)
    error = OSError(f"there is no address of {host}")
    # As text, a name would be encoded by the codec of international names, which takes 4 ms to import.
    name = host.encode("ascii") if host.isascii() else host
    for family, kind, protocol, _name, address in socket.getaddrinfo(name, port, 0, socket.SOCK_STREAM):
        server = socket.socket(family, kind, protocol)
        server.settimeout(timeout)
        try:
            server.connect(address)
        except OSError as refused:
            server.close()
            error = refused
        else:
            return server
    raise error


def read_answer(answer: bytes) -> tuple:
    """Return (status, body) of an HTTP response. ConnectionError if it is cut short or not HTTP."""
    head, ended, body = answer.partition(b"\r\n\r\n")
    first, *headers = head.split(b"\r\n")
    version, _, status = first.partition(b" ")
    if not ended or not version.startswith(b"HTTP/1.") or not status[:3].isdigit():
        raise ConnectionError("its answer is not HTTP, or cut short")
    for name, _, value in (line.partition(b":") for line in headers):
        if name.lower() == b"content-length" and int(value) != len(body):
            raise ConnectionError("its answer is cut short")
    return int(status[:3]), body


def in_envelope(answer, gate: bool):
    """Return the bytes in the envelope of a response; None if there are none, or for a gate if they decide nothing."""
    if not isinstance(answer, dict) or answer.get("handrail") != 1 or (gate and answer.get("decides") is not True):
        return None
    text = answer.get("stdout")
    return text.encode("utf-8") if isinstance(text, str) and text.strip() else None


def is_verdict(answer, event) -> bool:
    """Return whether a gate's response is valid: a full allow or deny, as `ask` lets some agents run the tool."""
    output = answer.get("hookSpecificOutput") if isinstance(answer, dict) else None
    if event.get("hook_event_name") == ELICITATION:  # what an MCP server asks: it runs nothing
        answered = isinstance(output, dict) and output.get("hookEventName") == ELICITATION
        return (answered and output.get("action") in ("accept", "decline")) or (output is None and answer == GO_ON)
    if not isinstance(output, dict) or output.get("hookEventName") != "PreToolUse":
        return False
    if event.get("tool_name") in ASKS_ITS_OWN_PERSON and "permissionDecision" not in output:
        return True
    return output.get("permissionDecision") in ("allow", "deny")


def watch_reader():
    """Exit once Claude Code or the shell around this has ended: the open connection would keep the action pending."""
    _thread.start_new_thread(_watch, (os.getppid(),))


def _watch(parent: int):
    reader = select.poll()
    reader.register(1, 0)  # no events asked for: POLLERR is always reported once the reading end is closed
    while os.getppid() == parent and not reader.poll(0):
        time.sleep(WATCH_INTERVAL)
    os._exit(BLOCK)


def refuse(message: str) -> int:
    """Print the message and return the exit status that blocks the tool."""
    print(message, file=sys.stderr)
    return BLOCK


def give_up(message: str) -> int:
    """Print the message and return the exit status of a report that was not delivered; it blocks nothing."""
    print(message.replace(", so nothing is allowed", ""), file=sys.stderr)
    return NOT_DELIVERED


if __name__ == "__main__":
    try:
        status = main(sys.argv[1:])
    except BaseException as error:  # no exception may let the tool run
        fail = give_up if sys.argv[2:3] == ["report"] else refuse
        status = fail(f"Handrail's hook failed ({type(error).__name__}), so nothing is allowed.")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # Python would tidy up for 2 ms
