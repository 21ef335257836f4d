"""The event loop of the init: clients, children and deadlines."""

import os
import selectors
import signal
import socket
import struct
import sys
import time

from .processes import (
    continue_helpers,
    members,
    processes,
    send_signal,
    signal_all,
    stop_all,
    tasks,
    tcp_tables,
    write_proc,
)
from .protocol import PROTOCOL, Client, Refused
from .spawn import shell, spawn
from .terminals import resize

MAX_CREATED = 100  # paths in one answer
NICENESS = 10
AUTOGROUP_RETRIES, AUTOGROUP_PAUSE = 30, 0.1  # the kernel takes one change each 100 ms from ordinary users
FREEZE_TIMEOUT = 10.0  # seconds


class Program:
    """A program started by a client. `drain` is our duplicate of its output pipe's read end."""

    def __init__(self, pid, keep, drain):
        self.pid = pid
        self.keep = keep
        self.drain = drain
        self.ended = False


class Init:
    """The event loop: clients, children and deadlines."""

    def __init__(self, listener, max_processes=None):
        self.listener = listener
        self.max_processes = max_processes  # limit on processes and threads of all programs together
        self.selector = selectors.DefaultSelector()
        self.clients = {}  # socket → Client
        self.deadlines = []  # [monotonic time, callable]
        self.stopped_before = None  # while frozen: the (pid, start time) of processes that were stopped before
        self.stopping = False
        self.ended = False
        self.held_programs = None  # made when the first of them is asked for
        self.tickets = None  # likewise
        self.lead = ("", 0)  # the workspace, and the highest epoch of its lead that a request has named

    def run(self):
        wake_r, wake_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.selector.register(wake_r, selectors.EVENT_READ, lambda: os.read(wake_r, 4096))
        self.selector.register(self.listener, selectors.EVENT_READ, self.accept)
        while not self.ended:
            pause = min((when for when, _ in self.deadlines), default=None)
            ready = self.selector.select(None if pause is None else max(0, pause - time.monotonic()))
            for key, _mask in ready:
                self.run_safely(key.data)
            self.run_safely(self.reap)
            for entry in [entry for entry in self.deadlines if entry[0] <= time.monotonic()]:
                self.deadlines.remove(entry)
                self.run_safely(entry[1])
            for client in list(self.clients.values()):
                self.run_safely(self.flush, client)

    def run_safely(self, step, *args):
        """Run a step and print its exception."""
        # An error in one request or client must not end the init: every program of the Run would end with it.
        try:
            step(*args)
        except Exception:
            sys.excepthook(*sys.exc_info())  # prints the traceback without importing `traceback`

    # Clients

    def accept(self):
        """Accept a client from outside the Run and greet it."""
        sock, _ = self.listener.accept()
        pid, uid, _gid = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        # Refuse clients from inside the Run. In a pid namespace, a process outside it has pid 0 here; without one,
        # only the uid can be checked.
        outside = pid == 0 if os.getpid() == 1 else uid in (0, os.getuid())
        if outside:
            self.greet(sock)
        else:
            sock.close()

    def greet(self, sock):
        """Make a client of a connection, and send it the hello."""
        sock.setblocking(False)
        client = self.clients[sock] = Client(sock)
        self.selector.register(sock, selectors.EVENT_READ, lambda: self.serve(client))
        greeting = {
            "protocol": PROTOCOL,
            "pid": os.getpid(),
            "frozen": self.stopped_before is not None,
            "shell": shell(),
        }
        client.send(greeting)

    def serve(self, client):
        """Handle the requests that have arrived from a client."""
        try:
            requests = client.receive()
        except ValueError:
            requests = None
        if requests is None:
            self.drop(client)
            return
        for request in requests:
            answer = {"id": request.get("id")}
            fds = []
            try:
                handler = getattr(self, "op_" + str(request.get("op")), None)
                if handler is None:
                    raise Refused("unknown operation")
                self.heed_lead(*request.get("lead") or self.lead)
                answer.update(handler(client, request, fds) or {})
            except Refused as refused:
                answer["error"] = str(refused)
            except (OSError, KeyError, TypeError, ValueError) as error:
                answer["error"] = f"{type(error).__name__}: {error}"
            client.send({**answer, "fds": len(fds)}, fds)

    def heed_lead(self, workspace, epoch):
        """Refuse what comes from a runner that leads the workspace no more, since another one leads it."""
        if workspace == self.lead[0] and epoch < self.lead[1]:
            raise Refused(f"another runner leads this workspace (epoch {self.lead[1]}, not {epoch})")
        self.lead = (workspace, epoch)

    def flush(self, client):
        if client.sock not in self.clients:
            return
        if not client.flush():
            self.drop(client)
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.outgoing else 0)
        key = self.selector.get_key(client.sock)
        if key.events != wanted:
            self.selector.modify(client.sock, wanted, key.data)

    def drop(self, client):
        """Disconnect a client and end its programs, except those started with `keep`."""
        self.selector.unregister(client.sock)
        del self.clients[client.sock]
        client.close()
        for program in client.started.values():
            self.discard_output(program)
            if not program.ended and not program.keep:
                self.end(program.pid, 5.0)

    def discard_output(self, program):
        """Read and discard the output of a program whose client is gone."""
        if program.drain is None:
            return
        fd, program.drain = program.drain, None
        os.set_blocking(fd, False)

        def discard():
            try:
                if os.read(fd, 1 << 20):
                    return
            except BlockingIOError:
                return
            self.selector.unregister(fd)
            os.close(fd)

        self.selector.register(fd, selectors.EVENT_READ, discard)

    # Children

    def reap(self):
        """Reap all ended children and send the exit events of programs."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            blocked = self.held_programs.refused(pid) if self.held_programs is not None else []
            if self.tickets is not None:
                self.tickets.ended(pid, blocked)
            told = {"blocked": blocked} if blocked else {}
            for client in self.clients.values():
                program = client.started.get(pid)
                if program is not None and not program.ended:
                    program.ended = True
                    client.send({"event": "exit", "pid": pid, "status": os.waitstatus_to_exitcode(status), **told})

    def op_start(self, client, request, fds):
        self.refuse_unless_open()
        kind = request["stdio"]
        read_end = None
        if kind == "given":
            stdio, client.fds = client.fds[:3], client.fds[3:]
            if len(stdio) != 3:
                raise Refused("three file descriptors must come with stdio: given")
        elif kind == "pty":
            stdio = self.open_terminal(request, fds) * 3
        elif kind == "pipe":
            # Made here and not by the client, so that the pipe belongs to the workload's uid and programs can open
            # /dev/stdout.
            read_end, write_end = os.pipe2(os.O_CLOEXEC)
            fds.append(read_end)
            stdio = [os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC), write_end, write_end]
        else:
            raise Refused("stdio must be pty, pipe or given")
        program = self.launch(client, request, stdio, controlling=kind == "pty")
        program.drain = None if read_end is None else os.dup(read_end)
        return {"pid": program.pid}

    def refuse_unless_open(self):
        if self.stopped_before is not None:
            raise Refused("frozen")
        if self.stopping:
            raise Refused("stopping")

    def open_terminal(self, request, fds):
        """Make a terminal, whose master goes to the client; return [its slave]."""
        master, slave = os.openpty()
        fds.append(master)
        resize(master, request.get("cols", 80), request.get("rows", 24))
        return [slave]

    def launch(self, client, request, stdio, *, controlling):
        """Start the request's program for this client, in its ring if it names one."""
        ring = self.holding().prepare(request["ring"]) if "ring" in request else None
        started = spawn(request, stdio, controlling, max_processes=self.max_processes, ring=ring)
        pid, watches = (started, {}) if ring is None else started
        if ring is not None:
            self.held_programs.watch(pid, watches, ring)
        program = client.started[pid] = Program(pid, bool(request.get("keep")), None)
        # Let the OOM killer choose programs before the init, which reports the kill.
        write_proc(pid, "oom_score_adj", "300")
        self.lower_priority(pid)
        return program

    def op_ticket(self, client, request, fds):
        self.with_tickets().add(request)

    def op_run(self, client, request, fds):
        return self.with_tickets().run(self, client, request, fds)

    def op_refused(self, client, request, fds):
        return {"blocked": self.with_tickets().blocked.get(request["ticket"], [])}

    def op_created(self, client, request, fds):
        created, appeared = self.held_programs.take(request["taken"]) if self.held_programs else ([], [])
        return {"created": created[:MAX_CREATED], "appeared": appeared[:MAX_CREATED]}

    def with_tickets(self):
        """Return the tickets; loaded here, because few Runs need them at once."""
        if self.tickets is None:
            from .tickets import Tickets

            self.tickets = Tickets()
        return self.tickets

    def holding(self):
        """Return what holds programs to envelopes; loaded here, because few Runs need it at once."""
        if self.held_programs is None:
            from .held_programs import HeldPrograms

            self.held_programs = HeldPrograms(self.selector)
        return self.held_programs

    def op_abilities(self, client, request, fds):
        return {"abilities": self.holding().abilities}

    def lower_priority(self, pid, tries=AUTOGROUP_RETRIES):
        """Give the program's session `NICENESS` among the sessions of the host."""
        # Where the kernel groups processes by session (autogroup), a nice value counts only within its session.
        if not write_proc(pid, "autogroup", str(NICENESS)) and tries > 1 and os.path.exists(f"/proc/{pid}/autogroup"):
            again = (time.monotonic() + AUTOGROUP_PAUSE, lambda: self.lower_priority(pid, tries - 1))
            self.deadlines.append(again)

    def op_signal(self, client, request, fds):
        for pid, _start_time in members(int(request["pid"])):
            send_signal(pid, int(request["signal"]))

    def op_end(self, client, request, fds):
        self.end(int(request["pid"]), float(request.get("grace_s", 5.0)))

    def end(self, pid, grace_s):
        """Send SIGTERM to a program's processes now, and SIGKILL to them and any that joined after the grace."""
        targets = members(pid)
        for member, _start_time in targets:
            send_signal(member, signal.SIGTERM)
            send_signal(member, signal.SIGCONT)

        def kill():
            known = set(targets)
            # Stop them before killing: stopped processes still count towards the process limit, so even a fork bomb
            # runs out. Processes that cannot be stopped are killed after half of the rounds.
            for turn in range(100):
                known.update(members(pid, known))
                left = [p for p in processes() if (p.pid, p.start_time) in known]
                if not left:
                    return
                still = turn >= 50 or all(p.is_stopped() for p in left)
                for member in reversed(left):  # children first: they would outlive their parent for a moment
                    send_signal(member.pid, signal.SIGKILL if still else signal.SIGSTOP)
                self.reap()
                time.sleep(0.005)

        self.deadlines.append((time.monotonic() + grace_s, kill))

    def op_processes(self, client, request, fds):
        return {"processes": [p.describe(bool(request.get("open"))) for p in processes()]}

    def op_tasks(self, client, request, fds):
        return {"tasks": tasks()}

    def op_tcp_tables(self, client, request, fds):
        return {"tables": tcp_tables()}

    # Freeze, thaw, stop

    def op_freeze(self, client, request, fds):
        if self.stopped_before is not None:
            return
        self.stopped_before = {(p.pid, p.start_time) for p in processes() if p.state == "T"}
        deadline = time.monotonic() + FREEZE_TIMEOUT
        while True:
            # Repeat: where the init is not process 1, a child forked between the listing and the signal would run.
            stop_all()
            running = [p for p in processes() if not p.is_stopped()]
            continue_helpers()
            if not running:
                return
            if time.monotonic() > deadline:
                names = ", ".join(sorted({p.argv()[0] if p.argv() else str(p.pid) for p in running})[:5])
                self.op_thaw(client, request, fds)
                raise Refused(f"these programs cannot be stopped now: {names}")
            self.reap()
            time.sleep(0.002)

    def op_thaw(self, client, request, fds):
        if self.stopped_before is None:
            return
        stopped_before, self.stopped_before = self.stopped_before, None
        # Children before parents: a shell that is continued first would see its job as stopped.
        for process in sorted(processes(), key=lambda p: -p.depth):
            if (process.pid, process.start_time) not in stopped_before:
                send_signal(process.pid, signal.SIGCONT)

    def begin_to_end_all(self, request):
        """Refuse new programs, send SIGTERM to all, and return when SIGKILL is due."""
        self.stopping = True
        self.stopped_before = None
        signal_all(signal.SIGTERM)
        signal_all(signal.SIGCONT)
        return time.monotonic() + float(request.get("grace_s", 5.0))

    def op_quiet(self, client, request, fds):
        deadline = self.begin_to_end_all(request)
        while processes():
            if time.monotonic() >= deadline:
                signal_all(signal.SIGKILL)
            self.reap()
            time.sleep(0.005)

    def op_stop(self, client, request, fds):
        deadline = self.begin_to_end_all(request)

        def check():
            self.reap()
            if not processes():
                self.ended = True
                return
            if time.monotonic() >= deadline:
                signal_all(signal.SIGKILL)
            self.deadlines.append((time.monotonic() + 0.02, check))

        self.deadlines.append((time.monotonic(), check))
