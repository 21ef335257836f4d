#!/usr/bin/python3 -IS
"""handrail-run TICKET COMMAND: run the command in the box of a connected folder, as if it ran here.

Standard library only, Python 3.9 and later; `connect` installs it beside the hook's connection file. It hands its own
input, output and errors, its folder and its environment (without credentials) to the box's init, which runs the command
in bash, held to the envelope that the ticket names; it passes signals on and ends with the command's exit status. The
last folder of the command goes to descriptor 8, if that is open, for the shell that called.
"""

# Each shell call waits for this program's imports. `socket` and `signal` take 7 ms more than the C modules below them,
# and so does `json`, which is imported when the command has been sent off (`Box.read`).
import _signal as signal
import _socket as socket
import fcntl
import os
import struct
import sys

CANNOT_RUN = 126
PASSED_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCONT", "SIGTSTP")
CWD_LINE = 8
HOW_TO_ASK = "To ask a person to let it run outside the box, make the call again with dangerouslyDisableSandbox: true."
# Variables that hold credentials, lead to a daemon outside the box, or change what a command's text means to bash: by
# a part of the name, its beginning, its end, or the whole. To compile a pattern of them would take as long as the rest.
_PARTS = """
    TOKEN SECRET PASSW PASSPHRASE CREDENTIAL APIKEY API_KEY ACCESSKEY ACCESS_KEY PRIVATEKEY PRIVATE_KEY AUTHORIZATION
    COOKIE _DSN
"""
_BEGINNINGS = """
    ANTHROPIC_ OPENAI_ AWS_ AZURE_ GOOGLE_ GCLOUD_ GITHUB_ GITLAB_ HANDRAIL_ VAULT_ KUBE_ SUDO_ GH_ PG DBUS_ TMUX
    DOCKER_ LISTEN_ VSCODE_ BASH_FUNC_ MONGO
"""
_NAMES = """
    KUBECONFIG REDIS_URL AMQP_URL HTTP_PROXY HTTPS_PROXY ALL_PROXY FTP_PROXY SSH_AUTH_SOCK SSH_AGENT_PID SSH_CONNECTION
    SSH_CLIENT SSH_TTY SSH_ASKPASS GPG_AGENT_INFO XDG_RUNTIME_DIR XAUTHORITY DISPLAY WAYLAND_DISPLAY STY CONTAINER_HOST
    NOTIFY_SOCKET GIT_ASKPASS BASH_ENV ENV BASHOPTS SHELLOPTS PROMPT_COMMAND PS4 TMPDIR TMP TEMP
"""
LEFT_OUT_PARTS, LEFT_OUT_BEGINNINGS = tuple(_PARTS.split()), tuple(_BEGINNINGS.split())
LEFT_OUT_NAMES, LEFT_OUT_ENDS = frozenset(_NAMES.split()), ("_PAT", "DATABASE_URL")


class Box:
    """The connection to the box's init: frames of a length and JSON, with file descriptors (init/protocol.py)."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self.sock.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")  # a socket's own path has 107 bytes
        os.close(folder)
        self.received, self.fds, self.is_greeted = b"", [], False

    def send(self, message, fds=()):
        body = as_json(message).encode("ascii")
        frame = struct.pack(">I", len(body)) + body
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))] if fds else []
        sent = self.sock.sendmsg([frame], rights)
        self.sock.sendall(frame[sent:])

    def read(self):
        """Return the next message after the greeting; raise EOFError when the box has ended."""
        import json

        while True:
            if len(self.received) >= 4:
                (length,) = struct.unpack_from(">I", self.received)
                if len(self.received) >= 4 + length:
                    message, self.received = self.received[4 : 4 + length], self.received[4 + length :]
                    if self.is_greeted:
                        return json.loads(message)
                    self.is_greeted = True
                    continue
            data, rights, _flags, _address = self.sock.recvmsg(1 << 16, socket.CMSG_SPACE(16), socket.MSG_CMSG_CLOEXEC)
            for _level, _kind, payload in rights:
                self.fds += struct.unpack(f"{len(payload) // 4}i", payload)
            if not data:
                raise EOFError
            self.received += data


def as_json(value):
    """Return the JSON of a dict, text or number."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{as_json(name)}:{as_json(each)}" for name, each in value.items()) + "}"
    if not isinstance(value, str):
        return str(value)
    encoded = value.encode("utf-16-be", "surrogatepass")
    units = struct.unpack(f">{len(encoded) // 2}H", encoded)
    escaped = {34, 92, *range(32)}
    text = "".join(f"\\u{unit:04x}" if unit > 126 or unit in escaped else chr(unit) for unit in units)
    return f'"{text}"'


def environment():
    """Return our environment without what the `LEFT_OUT` constants name."""
    return {name: value for name, value in os.environ.items() if not is_left_out(name.upper())}


def is_left_out(name):
    return (
        name in LEFT_OUT_NAMES
        or name.startswith(LEFT_OUT_BEGINNINGS)
        or name.endswith(LEFT_OUT_ENDS)
        or any(part in name for part in LEFT_OUT_PARTS)
    )


def main(arguments):
    if len(arguments) != 2 or ":" not in arguments[0]:
        return refuse("usage: handrail-run TICKET COMMAND")
    path, _, ticket = arguments[0].rpartition(":")
    told_r, told_w = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    asked = {"id": 1, "op": "run", "ticket": ticket, "command": arguments[1], "cwd": os.getcwd(), "env": environment()}
    has_terminal = os.isatty(0) and os.isatty(1)
    if has_terminal:
        asked["rows"], asked["cols"] = struct.unpack("HHHH", fcntl.ioctl(0, 0x5413, b"\0" * 8))[:2]
    numbers = [getattr(signal, name) for name in PASSED_SIGNALS]
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)  # until they can be passed on
    try:
        box = Box(path)
        box.send(asked, [told_w] if has_terminal else [0, 1, 2, told_w])
        answer = box.read()
        filters = []
        if "redaction" in answer:
            has_terminal = False
            filters, answer = start_redacted(box, asked, told_w, answer["redaction"])
    except (OSError, EOFError) as error:
        return refuse(f"the folder's box does not answer ({error}). Nothing ran. Make the call again.")
    os.close(told_w)
    if "error" in answer:
        return refuse(f"{answer['error']}. Nothing ran.")
    for number in numbers:
        signal.signal(
            number, lambda given, _frame: box.send({"id": 2, "op": "signal", "pid": answer["pid"], "signal": given})
        )
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    try:
        ended = relayed(box) if has_terminal else until_end(box)
    except (OSError, EOFError):
        return refuse("the folder's box ended, and the command with it.")
    for each in filters:
        wait_for(each)
    tell_folder(told_r)
    if ended["status"] and ended.get("blocked"):  # of one that went well the hook after the call tells what matters
        what = "; ".join(f"{entry['kind']}: {entry['what']}" for entry in ended["blocked"])
        print(f"[Handrail blocked this command's {what}. {HOW_TO_ASK}]", file=sys.stderr)
    status = ended["status"]
    return status if status >= 0 else 128 - status


def start_redacted(box, asked, told, redaction):
    """Ask again with pipes as output; return (processes that redact what comes through them, the box's answer).

    The command never gets our own output. The values are the first line of each pipe.
    """
    import json
    import subprocess

    line = json.dumps(redaction["hidden"]).encode() + b"\n"
    ends, filters = [], []
    for target in (1, 2):
        read_end, write_end = os.pipe()
        with open(read_end, "rb") as source:
            filters.append(subprocess.Popen(redaction["command"], stdin=source, stdout=target))
        os.write(write_end, line)  # a pipe takes 64 KiB before anybody reads; the values are less
        ends.append(write_end)
    again = {name: value for name, value in asked.items() if name not in ("rows", "cols")}
    box.send(again | {"redacted": 1}, [0, *ends, told])
    answer = box.read()
    for end in ends:
        os.close(end)
    return filters, answer


def wait_for(process):
    """Wait until it has passed on all output; no longer than a second while something else holds its pipe open."""
    import subprocess

    try:
        process.wait(1.0)
    except subprocess.TimeoutExpired:
        pass


def until_end(box):
    while True:
        message = box.read()
        if message.get("event") == "exit":
            return message


def relayed(box):
    """Connect our terminal with the command's own until the command ends."""
    import select
    import termios
    import tty

    (master,) = box.fds
    before = termios.tcgetattr(0)

    def resized(*_):
        fcntl.ioctl(master, termios.TIOCSWINSZ, fcntl.ioctl(0, termios.TIOCGWINSZ, b"\0" * 8))

    signal.signal(signal.SIGWINCH, resized)
    try:
        tty.setraw(0)
        sources, ended = [0, master, box.sock], None
        while master in sources and (ended is None or select.select([master], [], [], 0)[0]):
            for source in select.select(sources, [], [])[0] if ended is None else [master]:
                if source is box.sock:
                    message = box.read()
                    ended = message if message.get("event") == "exit" else None
                    continue
                try:
                    data = os.read(source, 1 << 16)
                except OSError:
                    data = b""  # the last program has closed the terminal
                if data:
                    write_all(1 if source is master else master, data)
                else:
                    sources.remove(source)
        return ended or until_end(box)
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


def write_all(fd, data):
    while data:
        data = data[os.write(fd, data) :]


def tell_folder(told):
    """Pass on the last folder of the command to the calling shell."""
    try:
        folder = os.read(told, 1 << 13)
        if folder.startswith(b"/"):
            write_all(CWD_LINE, folder)
    except OSError:
        pass  # it was killed, or exited before its last line; or nobody listens


def refuse(message):
    print(f"handrail-run: {message}", file=sys.stderr)
    return CANNOT_RUN


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(status)  # Python would tidy up for 2 ms
