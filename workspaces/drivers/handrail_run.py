#!/usr/bin/python3 -IS
"""handrail-run TICKET COMMAND: run the command in the box of a connected folder, as if it ran here.

Standard library only, Python 3.9 and later; `connect` installs it beside the hook's connection file. It hands its own
input, output and errors, its folder and its environment (without credentials) to the box's init, which runs the command
in bash, held to the envelope that the ticket names; it passes signals on and ends with the command's exit status. The
last folder of the command goes to descriptor 8, if that is open, for the shell that called.
"""

import array
import fcntl
import json
import os
import re
import signal
import socket
import struct
import sys

CANNOT_RUN = 126
PASSED_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCONT", "SIGTSTP")
CWD_LINE = 8
HOW_TO_ASK = "To ask a person to let it run outside the box, make the call again with dangerouslyDisableSandbox: true."
# Variables that hold credentials, lead to a daemon outside the box, or change what a command's text means to bash.
LEFT_OUT = re.compile(
    r".*(TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|AUTHORIZATION|COOKIE|_DSN|_PAT$).*"
    r"|(ANTHROPIC|OPENAI|AWS|AZURE|GOOGLE|GCLOUD|GITHUB|GITLAB|HANDRAIL|VAULT|KUBE|SUDO)_.*|GH_.*|KUBECONFIG|PG.*"
    r"|DATABASE_URL|.*_DATABASE_URL|REDIS_URL|MONGO.*_URI|AMQP_URL|(HTTPS?|ALL|FTP)_PROXY"
    r"|SSH_(AUTH_SOCK|AGENT_PID|CONNECTION|CLIENT|TTY|ASKPASS)|GPG_AGENT_INFO|DBUS_.*|XDG_RUNTIME_DIR|XAUTHORITY"
    r"|DISPLAY|WAYLAND_DISPLAY|TMUX.*|STY|DOCKER_.*|CONTAINER_HOST|LISTEN_.*|NOTIFY_SOCKET|GIT_ASKPASS|VSCODE_.*"
    r"|BASH_ENV|ENV|BASH_FUNC_.*|BASHOPTS|SHELLOPTS|PROMPT_COMMAND|PS4|TMPDIR|TMP|TEMP",
    re.IGNORECASE,
)


class Box:
    """The connection to the box's init: frames of a length and JSON, with file descriptors (init/protocol.py)."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self.sock.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")  # a socket's own path has 107 bytes
        os.close(folder)
        self.received, self.fds = b"", []
        self.read()

    def send(self, message, fds=()):
        body = json.dumps(message).encode()
        frame = struct.pack(">I", len(body)) + body
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        sent = self.sock.sendmsg([frame], rights)
        self.sock.sendall(frame[sent:])

    def read(self):
        """Return the next message; raise EOFError when the box has ended."""
        while True:
            if len(self.received) >= 4:
                (length,) = struct.unpack_from(">I", self.received)
                if len(self.received) >= 4 + length:
                    message = json.loads(self.received[4 : 4 + length])
                    self.received = self.received[4 + length :]
                    return message
            data, rights, _flags, _address = self.sock.recvmsg(1 << 16, socket.CMSG_SPACE(16), socket.MSG_CMSG_CLOEXEC)
            for _level, _kind, payload in rights:
                self.fds += array.array("i", payload)
            if not data:
                raise EOFError
            self.received += data


def environment():
    """Return our environment without what `LEFT_OUT` names."""
    return {name: value for name, value in os.environ.items() if not LEFT_OUT.fullmatch(name)}


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
    tell_folder(told_r)
    if ended.get("blocked"):
        what = "; ".join(f"{entry['kind']}: {entry['what']}" for entry in ended["blocked"])
        print(f"[Handrail blocked this command's {what}. {HOW_TO_ASK}]", file=sys.stderr)
    status = ended["status"]
    return status if status >= 0 else 128 - status


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
    sys.exit(main(sys.argv[1:]))
