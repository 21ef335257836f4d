"""The bridge of a pod: the first process of a Run on the runner's host, which keeps the connection to the pod's keeper.

    python3 -I -S BRIDGE LISTEN_FD LOCK_FD CONFIG_FD

A standalone program, standard library only, run as the workspace's user. CONFIG_FD is a marshalled dict: the pod's
address, the two certificates and the runner's key, the Run, its lead, and descriptors. While the connection is cut it
tries again for ever: only the runner, which can ask the cluster, knows whether the pod is gone, and ends the bridge.

Operation beside those of every bridge: `serve`, which a tree asks for after it has connected to its port.
"""

import ctypes
import json
import marshal
import os
import signal
import socket
import ssl
import sys
import threading
import time

import base_bridge
from link import Link, look_after, read_line
from mux import Stream

PR_SET_DUMPABLE = 4
CONNECT_S, SHAKE_S = 5.0, 10.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 2.0
STARTS_S, LONGEST_AT_START_S = 60.0, 0.15  # while a pod starts it is asked often: somebody waits for it


class Bridge(base_bridge.Bridge):
    """The event loop between clients on the host and the keeper of a pod."""

    HERE_ONLY = (*base_bridge.Bridge.HERE_ONLY, "serve")

    def __init__(self, listener, line, link, config):
        super().__init__(listener, line, config["ports"], config["oom"])
        self.link, self.config = link, config
        for folder, fd in config["trees"].items():
            self.selector.register(fd, base_bridge.selectors.EVENT_READ, self.taker(socket.socket(fileno=fd), folder))
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
            print(f"the pod says: {answer['error']}", file=sys.stderr, flush=True)
            self.put_an_end()

    def carry_on(self, message):
        if "terminating" in message:
            note(self.config["state"], terminating=True)
        else:
            super().carry_on(message)

    # The tree

    def taker(self, listener, folder):
        """Return what connects a client of a folder's port with a server of that folder in the pod."""

        def take(_mask):
            sock, _ = listener.accept()
            stream = next(self.line.numbers)

            def served(said):
                if "error" in said:
                    sock.close()
                else:
                    Stream(self.line, stream, sock.detach(), reads=True, writes=True, half=True)

            self.ask({"op": "serve", "stream": stream, "folder": folder}, served)

        return take

    def here_serve(self, request, answer):
        answer({})


class Connector:
    """Connects the link to the pod, again after each cut."""

    def __init__(self, link, config):
        self.link, self.config = link, config
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_3
        self.context.check_hostname = False  # the one certificate that is taken names this pod alone
        self.context.load_verify_locations(cadata=config["keeper"])
        with in_memory(config["certificate"] + config["key"]) as path:
            self.context.load_cert_chain(path)
        self.cut = threading.Event()
        link.on_cut = self.was_cut

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
        """Connect, and go on with the stream; end the link if the keeper refuses this runner."""
        sock = socket.create_connection(tuple(self.config["address"]), timeout=CONNECT_S)
        try:
            look_after(sock)
            sock.settimeout(SHAKE_S)
            sock = self.context.wrap_socket(sock)
            asked = {"run": self.config["run"], "session": self.link.session, "lead": self.config["lead"]}
            sock.sendall(json.dumps(asked | {"received": self.link.received}).encode() + b"\n")
            said = json.loads(read_line(sock) or b"null")
            if said is None:
                raise ConnectionResetError("no answer")
            if "error" in said:
                print(f"the pod refuses this runner: {said['error']}", file=sys.stderr, flush=True)
                self.link.drop()
                return
            self.link.attach(sock, int(said["received"]))
        except BaseException:
            sock.close()
            raise


class in_memory:
    """`with in_memory(text) as path`: a file that only this process has."""

    def __init__(self, text):
        self.fd = os.memfd_create("handrail", os.MFD_CLOEXEC)
        os.write(self.fd, text.encode())

    def __enter__(self):
        return f"/proc/self/fd/{self.fd}"

    def __exit__(self, *_):
        os.close(self.fd)


state = {"up": False, "terminating": False}
writing = threading.Lock()


def note(fd, **changed):
    """Write down for the runner how the pod was last seen: {up, terminating, at: Unix time of the change of `up`}."""
    with writing:
        if "up" in changed and changed["up"] != state["up"]:
            state["at"] = time.time()
        state.update(changed)
        text = json.dumps(state).encode()
        os.pwrite(fd, text.ljust(200), 0)


def main():
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
    connector = Connector(link, config)
    bridge = Bridge(socket.socket(fileno=listen_fd), line.detach(), link, config)
    for thread in (link.serve, connector.serve):
        threading.Thread(target=thread, daemon=True).start()
    bridge.run()
    os._exit(0)


if __name__ == "__main__":
    main()
