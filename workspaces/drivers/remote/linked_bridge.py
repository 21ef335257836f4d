"""The bridge to a keeper: the first process of a Run on the runner's host, which keeps the connection to it.

    python3 -I -S BRIDGE LISTEN_FD LOCK_FD CONFIG_FD

A standalone program, standard library only, run as the workspace's user. CONFIG_FD is a marshalled dict: the Run, its
lead, descriptors, and what a driver's own bridge needs, which gives the `Connector`. While the connection is cut it
tries again for ever, until it hears that the other end is gone.
"""

import ctypes
import json
import marshal
import os
import signal
import socket
import sys
import threading
import time

import base_bridge
from link import Link, read_line

PR_SET_DUMPABLE = 4
SHAKE_S = 10.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 2.0
STARTS_S, LONGEST_AT_START_S = 60.0, 0.15  # while the other end starts it is asked often: somebody waits for it


class Bridge(base_bridge.Bridge):
    """The event loop between clients on the host and a keeper."""

    def __init__(self, listener, line, link, config):
        super().__init__(listener, line, config["ports"], config.get("oom"))
        self.link, self.config = link, config
        self.ask({"op": "hello", "session": link.session}, self.greeted)

    def has_ended(self):
        return self.link.over

    def put_an_end(self):
        self.link.drop()

    def greeted(self, _answer):
        self.ask({"op": "configure", "pids": self.config["pids"], "ports": self.config["names"]}, self.configured)
        self.up()  # messages are handled in their order

    def configured(self, answer):
        if "error" in answer:
            print(f"the keeper says: {answer['error']}", file=sys.stderr, flush=True)
            self.put_an_end()

    def carry_on(self, message):
        if "terminating" in message:
            note(self.config["state"], terminating=True)
        else:
            super().carry_on(message)


class Connector:
    """Connects the link to the keeper, again after each cut."""

    def __init__(self, link, config):
        self.link, self.config = link, config
        self.cut = threading.Event()
        link.on_cut = self.was_cut

    def reach(self):
        """Return a new connection with the keeper; OSError if there is none now, None if it is gone for good."""
        raise NotImplementedError

    def was_cut(self):
        note(self.config["state"], up=False)
        self.cut.set()

    def serve(self):
        pause, starts_until = FIRST_PAUSE_S, time.monotonic() + STARTS_S
        while not self.link.over:
            try:
                self.connect()
            except (OSError, ValueError):
                time.sleep(pause)
                pause = min(pause * 1.5, LONGEST_AT_START_S if time.monotonic() < starts_until else LONGEST_PAUSE_S)
                continue
            note(self.config["state"], up=True)
            pause, starts_until = FIRST_PAUSE_S, 0.0
            self.cut.wait()
            self.cut.clear()

    def connect(self):
        """Connect, and go on with the stream; end the link if the keeper is gone, or refuses this runner."""
        sock = self.reach()
        if sock is None:
            self.link.drop()
            return
        try:
            asked = {"run": self.config["run"], "session": self.link.session, "lead": self.config["lead"]}
            asked |= {"received": self.link.received} | self.config.get("shown", {})
            sock.sendall(json.dumps(asked).encode() + b"\n")
            said = json.loads(read_line(sock) or b"null")
            if said is None:
                raise ConnectionResetError("no answer")
            if "error" in said:
                print(f"the keeper refuses this runner: {said['error']}", file=sys.stderr, flush=True)
                self.link.drop()
                return
            self.link.attach(sock, int(said["received"]))
        except BaseException:
            sock.close()
            raise


state = {"up": False, "terminating": False}
writing = threading.Lock()


def note(fd, **changed):
    """Write down for the runner how the keeper was last seen: {up, terminating, at: when `up` changed, Unix time}."""
    with writing:
        if "up" in changed and changed["up"] != state["up"]:
            state["at"] = time.time()
        state.update(changed)
        text = json.dumps(state).encode()
        os.pwrite(fd, text.ljust(200), 0)


def main(bridge_class, connector_class):
    listen_fd, _lock_fd, config_fd = (int(argument) for argument in sys.argv[1:4])
    with open(config_fd, "rb") as file:
        config = marshal.load(file)
    if ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise SystemExit("cannot protect the bridge from the workload")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    inner, line = socket.socketpair()
    link = Link(inner)
    link.session = os.urandom(16).hex()
    connector = connector_class(link, config)
    bridge = bridge_class(socket.socket(fileno=listen_fd), line.detach(), link, config)
    for thread in (link.serve, connector.serve):
        threading.Thread(target=thread, daemon=True).start()
    bridge.run()
    os._exit(0)
