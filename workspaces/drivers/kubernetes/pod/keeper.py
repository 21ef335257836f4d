"""The keeper, the first process of a pod: the Run's init, and what a runner reaches it by over mutual TLS.

    python3 keeper.pyz keep

Standard library only, any Python from 3.9. The init's loop is the main thread, since it forks the workspace's programs.
The agent that serves the runner's bridge has a thread of its own and reaches the init by a socket pair that has no
name, so no program here can. As process 1 the keeper cannot be killed by programs, and it is not dumpable.

A runner connects, shows the certificate that this pod was made with, and says in one line of JSON

  run, session, received, lead: [workspace, epoch]

It hears {received} and goes on with the stream of this session, or with a new one if the session is new; or {error}. A
lower epoch than the highest that was named is refused for ever.
"""

import json
import os
import queue
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import traceback
from collections import deque

import base_agent
from conversations import Conversations
from init.loop import Init
from init.processes import helpers
from init.program import take_precautions
from init.spawn import SPARE_PROCESSES, limit_processes
from link import Link, look_after, read_line
from mux import Stream

PORT = 7443
FILES, ONCE, PROGRAMS = "/.handrail/files", "/.handrail/once", "/.handrail/programs"
SHAKE_S = 10.0
MOST_SHAKING = 16
ALONE_S = 24 * 3600  # without a runner, a pod ends by itself
OOM_FILES = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")


class PodInit(Init):
    """The init, whose clients are handed over by the agent in the same process."""

    def __init__(self):
        ours, self.bell = socket.socketpair()
        ours.setblocking(False)
        super().__init__(ours)
        self.handed = deque()
        self.at_end = None

    def connect(self):
        """Return a new connection to the init; called by other threads."""
        ours, theirs = socket.socketpair()
        self.handed.append(theirs)
        self.bell.send(b".")
        return ours

    def accept(self):
        self.listener.recv(4096)
        while self.handed:
            self.greet(self.handed.popleft())

    def limit(self, number):
        """Limit all programs together to so many processes and threads."""
        self.max_processes = number
        limit_processes(number + SPARE_PROCESSES)


class PodAgent(base_agent.Agent):
    """The agent of a pod. Its tree is served over a stream of the line, by a program for each folder."""

    def __init__(self, line, init):
        super().__init__(line, lambda *how: Conversations(*how, init.connect, oom_kills))
        self.init = init
        self.lines = queue.Queue()  # descriptors of the lines of later sessions
        self.servers = {}  # folder: its server
        self.going_r, self.going_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.selector.register(self.going_r, 1, self.say_it_goes)

    def listen_to_signals(self):
        """Do nothing: signals and children are the main thread's."""

    def reap(self):
        """Forget servers that have ended; the init has reaped them."""
        for pid, helper in list(helpers.items()):
            if helper.poll() is not None:
                del helpers[pid]

    def lost(self):
        self.line.reopen(self.lines.get())

    def say_it_goes(self, _mask):
        """Tell the runner that the cluster ends this pod."""
        os.read(self.going_r, 4096)
        self.line.message({"terminating": True})

    def op_configure(self, message):
        if self.configured is None:
            if message["pids"] is not None:
                self.init.limit(message["pids"])
            for number, name in message["ports"].items():
                self.listen(int(number), name)
            self.configured = message | {"uid": os.getuid()}

    def op_serve(self, message):
        """Start a server of the tree, or of the home, for a client of the bridge; end the one of the former client."""
        folder = message["folder"]
        former = self.servers.get(folder)
        if former is not None and former.poll() is None:
            former.terminate()
            former.wait(5)
        more = ["--home", f"{FILES}/home"] if folder == "tree" else []
        ours, theirs = socket.socketpair()
        with theirs:
            made = subprocess.Popen([*tree_program(folder), *more], stdin=theirs, stdout=theirs, cwd="/")
        self.servers[folder] = helpers[made.pid] = made
        Stream(self.line, message["stream"], ours.detach(), reads=True, writes=True, half=True)

    def op_is_serving(self, message):
        self.server = self.servers.get(message.get("folder", "tree"))
        super().op_is_serving(message)


class Door:
    """Takes connections of runners, and gives the agent the stream of the newest session."""

    def __init__(self, told):
        self.told = told
        self.context = context(f"{ONCE}/keeper.crt", f"{ONCE}/keeper.key", f"{ONCE}/runner.crt")
        self.turn, self.shaking = threading.Lock(), threading.BoundedSemaphore(MOST_SHAKING)
        self.session, self.link, self.agent, self.lead = None, None, None, ("", 0)
        self.alone_since = time.monotonic()
        self.init = PodInit()

    def listen(self):
        listener = socket.create_server(("0.0.0.0", PORT), backlog=64)
        while True:
            sock, _ = listener.accept()
            if not self.shaking.acquire(blocking=False):
                sock.close()
                continue
            threading.Thread(target=self.shake, args=(sock,), daemon=True).start()

    def shake(self, sock):
        """Take a connection whose other end has the runner's certificate."""
        try:
            look_after(sock)
            sock.settimeout(SHAKE_S)
            sock = self.context.wrap_socket(sock, server_side=True)
            asked = json.loads(read_line(sock) or b"{}")
            with self.turn:
                self.admit(sock, asked)
        except (OSError, ValueError, KeyError, TypeError):
            sock.close()
        finally:
            self.shaking.release()

    def admit(self, sock, asked):
        """Go on with the session that the connection names, or begin it."""
        workspace, epoch = asked["lead"] or self.lead
        if asked["run"] != self.told["run"]:
            sock.sendall(json.dumps({"error": "this pod is of another Run"}).encode() + b"\n")
            sock.close()
            return
        if epoch < self.lead[1]:
            words = f"another runner leads this workspace (epoch {self.lead[1]}, not {epoch})"
            sock.sendall(json.dumps({"error": words}).encode() + b"\n")
            sock.close()
            return
        self.lead = (workspace, epoch)
        received = 0
        if asked["session"] == self.session and not self.link.over:
            received = self.link.let_go()
        else:
            self.begin(asked["session"])
        sock.sendall(json.dumps({"received": received}).encode() + b"\n")
        self.link.attach(sock, asked["received"])
        self.alone_since = None

    def begin(self, session):
        """Begin the stream of a new session, in place of the former one."""
        former, (inner, line) = self.link, socket.socketpair()
        self.session = session
        self.link = Link(inner, on_cut=self.is_alone)
        threading.Thread(target=self.link.serve, daemon=True).start()
        if former is None:
            self.agent = PodAgent(line.detach(), self.init)
            threading.Thread(target=self.agent.run, daemon=True).start()
        else:
            self.agent.lines.put(line.detach())
            former.drop()

    def is_alone(self):
        self.alone_since = time.monotonic()

    def end_if_alone(self):
        """End a pod that no runner has asked for in a day."""
        since = self.alone_since
        if since is not None and time.monotonic() - since > ALONE_S:
            print("no runner has come for a day", file=sys.stderr, flush=True)
            self.init.ended = True
            self.init.bell.send(b".")
            return
        self.init.deadlines.append((time.monotonic() + 60, self.end_if_alone))


def context(certificate, key, other):
    """Return the TLS settings of an end that has this certificate and takes only the other one."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.load_cert_chain(certificate, key)
    made.load_verify_locations(other)
    made.verify_mode = ssl.CERT_REQUIRED
    return made


def oom_kills():
    """Return the number of programs of this container that were killed for lack of memory."""
    for path in OOM_FILES:
        try:
            with open(path) as file:
                return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
        except OSError:
            continue
    return 0


def main():
    with open(f"{ONCE}/keeper.json") as file:
        told = json.load(file)
    door = Door(told)
    for name in os.listdir(ONCE):
        os.unlink(f"{ONCE}/{name}")
    os.chdir("/")
    os.umask(0o022)
    os.environ.clear()
    take_precautions()
    for folder in ("tree", "home"):
        recover(folder)
    door.init.holding()  # tried now: in gVisor it takes longer than who starts the first held program would wait
    threading.excepthook = end_with_it
    threading.Thread(target=door.listen, daemon=True).start()
    door.end_if_alone()
    signal.signal(signal.SIGTERM, lambda *_: door.agent and os.write(door.agent.going_w, b"."))
    door.init.run()
    if door.link is not None:
        time.sleep(0.05)  # the agent's thread sends what the init has said last
        door.link.end()
    os._exit(0)


def recover(folder):
    """Finish or roll back a restore that was interrupted, on a volume that outlived its pod."""
    if os.path.exists(f"{FILES}/{folder}.journal"):
        subprocess.run([*tree_program(folder), "--recover"], check=True, stdout=subprocess.DEVNULL)


def tree_program(folder):
    """Return the command of a server of the tree or the home."""
    python = [sys.executable, "-I", "-S", "-B", f"{PROGRAMS}/tree.pyz"]
    return [*python, f"{FILES}/{folder}", "--journal", f"{FILES}/{folder}.journal"]


def end_with_it(args):
    """End the pod when one of its threads breaks: without it nobody can reach the rest."""
    traceback.print_exception(args.exc_type, args.exc_value, args.exc_traceback)
    os._exit(1)
