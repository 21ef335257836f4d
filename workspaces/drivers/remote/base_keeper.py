"""The keeper: a Run's init where no descriptor can be handed over, and what a runner reaches it by.

Standard library only, any Python from 3.9. It is the first process of a pod, or of a container in gVisor; a driver has
a keeper of its own with subclasses of `Door` and `KeeperAgent`. The init's loop is the main thread, since it forks the
workspace's programs. The agent that serves the runner's bridge has a thread of its own and reaches the init by a socket
pair that has no name, so no program here can. On Linux programs cannot kill the keeper, as process 1; gVisor of 2022
lets those of its user. It is not dumpable.

A runner connects, shows that it is the Run's, and says in one line of JSON

  run, session, received, lead: [workspace, epoch]

It hears {received} and goes on with the stream of this session, or with a new one if the session is new; or {error}. A
lower epoch than the highest that was named is refused for ever.
"""

import json
import os
import queue
import select
import selectors
import socket
import sys
import threading
import time
import traceback
from collections import deque

import base_agent
from conversations import Conversations
from init.loop import Init
from init.processes import helpers, members
from init.spawn import SPARE_PROCESSES, limit_processes
from link import Link, read_line

SHAKE_S = 10.0
MOST_SHAKING = 16
LEFT_S = 0.2  # between looks for what is left of a program
ALONE_S = 24 * 3600  # without a runner, a keeper ends by itself
OOM_FILES = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")


class KeeperInit(Init):
    """The init, whose clients are handed over by the agent in the same process."""

    def __init__(self):
        ours, self.bell = socket.socketpair()
        ours.setblocking(False)
        super().__init__(ours)
        self.handed = deque()

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


class KeeperAgent(base_agent.Agent):
    """The agent in the keeper's process."""

    def __init__(self, line, init):
        super().__init__(line, lambda *how: Conversations(*how, init.connect, oom_kills))
        self.init = init
        self.lines = queue.Queue()  # descriptors of the lines of later sessions
        if not terminals_hang_up():
            self.left, (self.left_r, self.left_w) = deque(), os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            self.selector.register(self.left_r, selectors.EVENT_READ, self.hang_up)
            self.conversations.on_end = self.watch_terminal

    def listen_to_signals(self):
        """Do nothing: signals and children are the main thread's."""

    def reap(self):
        """Forget helpers that have ended; the init has reaped them."""
        for pid, helper in list(helpers.items()):
            if helper.poll() is not None:
                del helpers[pid]

    def lost(self):
        self.line.reopen(self.lines.get())

    def watch_terminal(self, pid, streams):
        """Hang up a program's terminal once its session has ended, in a kernel that does not (gVisor of 2022)."""

        def wait():
            while members(pid):
                time.sleep(LEFT_S)
            self.left.extend(streams)
            os.write(self.left_w, b".")

        streams = [stream for stream in streams if stream.writes]
        if streams:
            threading.Thread(target=wait, daemon=True).start()

    def hang_up(self, _mask):
        os.read(self.left_r, 4096)
        while self.left:
            self.left.popleft().hang_up()

    def op_configure(self, message):
        if self.configured is None:
            if message["pids"] is not None:
                self.init.limit(message["pids"])
            for number, name in message["ports"].items():
                self.listen(int(number), name)
            self.configured = message | {"uid": os.getuid()}


class Door:
    """Takes connections of runners, and gives the agent the stream of the newest session. `told`: {run}."""

    agent_class = KeeperAgent

    def __init__(self, told):
        self.told = told
        self.turn, self.shaking = threading.Lock(), threading.BoundedSemaphore(MOST_SHAKING)
        self.session, self.link, self.agent, self.lead = None, None, None, ("", 0)
        self.alone_since = time.monotonic()
        self.init = KeeperInit()

    # Hooks

    def listener(self):
        """Return the listening socket."""
        raise NotImplementedError

    def prove(self, sock):
        """Return a connection whose other end is the Run's runner, as far as the connection itself can show it."""
        return sock

    def why_not(self, asked):
        """Return why this connection is refused, "" if it is not."""
        return "" if asked["run"] == self.told["run"] else "this keeper is of another Run"

    # Connections

    def listen(self):
        listener = self.listener()
        while True:
            sock, _ = listener.accept()
            if not self.shaking.acquire(blocking=False):
                sock.close()
                continue
            threading.Thread(target=self.shake, args=(sock,), daemon=True).start()

    def shake(self, sock):
        """Take a connection, if its other end is the Run's runner."""
        try:
            sock.settimeout(SHAKE_S)
            sock = self.prove(sock)
            asked = json.loads(read_line(sock) or b"{}")
            with self.turn:
                self.admit(sock, asked)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            sock.close()
        finally:
            self.shaking.release()

    def admit(self, sock, asked):
        """Go on with the session that the connection names, or begin it."""
        workspace, epoch = asked["lead"] or self.lead
        error = self.why_not(asked)
        if not error and epoch < self.lead[1]:
            error = f"another runner leads this workspace (epoch {self.lead[1]}, not {epoch})"
        if error:
            sock.sendall(json.dumps({"error": error}).encode() + b"\n")
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
            self.agent = self.agent_class(line.detach(), self.init)
            threading.Thread(target=self.agent.run, daemon=True).start()
        else:
            self.agent.lines.put(line.detach())
            former.drop()

    def is_alone(self):
        self.alone_since = time.monotonic()

    def end_if_alone(self):
        """End a keeper that no runner has asked for in a day."""
        since = self.alone_since
        if since is not None and time.monotonic() - since > ALONE_S:
            print("no runner has come for a day", file=sys.stderr, flush=True)
            self.init.ended = True
            self.init.bell.send(b".")
            return
        self.init.deadlines.append((time.monotonic() + 60, self.end_if_alone))

    def serve(self):
        """Serve in the main thread until the init has ended."""
        self.init.holding()  # tried now: in gVisor it takes longer than who starts the first held program would wait
        threading.excepthook = end_with_it
        threading.Thread(target=self.listen, daemon=True).start()
        self.end_if_alone()
        self.init.run()

    def say_over(self):
        """Tell the runner that the Run is over; the process ends after this."""
        if self.link is not None:
            time.sleep(0.05)  # the agent's thread sends what the init has said last
            self.link.end()


def terminals_hang_up():
    """Return whether a terminal says that the last program has closed it."""
    master, slave = os.openpty()
    os.close(slave)
    poll = select.poll()
    poll.register(master, 0)
    found = poll.poll(0)
    os.close(master)
    return bool(found)


def oom_kills():
    """Return the number of programs of this container that were killed for lack of memory."""
    for path in OOM_FILES:
        try:
            with open(path) as file:
                return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
        except OSError:
            continue
    return 0


def end_with_it(args):
    """End the process when one of its threads breaks: without it nobody can reach the rest."""
    traceback.print_exception(args.exc_type, args.exc_value, args.exc_traceback)
    os._exit(1)
