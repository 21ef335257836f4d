"""The protocol between the init and its clients: frames over a unix socket, and the descriptors that come with them.

Protocol 1: frames of a 4-byte length (big-endian) and JSON; file descriptors are passed (SCM_RIGHTS) with the frame
that announces their number in `fds`. On connect the init sends `{protocol, pid, frozen, shell}`. Each request has `id`
and `op`; each answer has the `id` and either its fields or `error`. The event `{event: exit, pid, status}` is sent to
the client that started the program; status is an exit status or minus a signal. With `blocked: [{kind, what}]` it says
what was refused to a program in a ring.

A request may name `lead`: [workspace, epoch]. One with a lower epoch than an earlier request for this workspace had is
refused, for ever.

  start      argv, env, cwd, stdio (pty | pipe | given + 3 fds), cols, rows, keep, ring ({envelope, workspace, home,
             shares_signals})
             → pid, and one fd: the pty's master or the output's read end
             With a ring the program is held to its envelope, or an error is answered and nothing runs.
  ticket     ticket, command, cwd, ring, seconds   allow this command to be run once, in that folder
  run        ticket, command, cwd, env + 4 fds, or + 1 fd with cols, rows (`tickets.py`)
             → pid, and with cols and rows one fd, the pty's master. Start what a ticket allows.
  refused    ticket                     → blocked: [{kind, what}], what was refused to a ticket's command that has ended
  created    taken                      → created: protected paths that held programs that ended have made, relative to
             the workspace; appeared: others that came while one of them ran on in the background. Those in `taken` are
             not named again.
  abilities  -                          → abilities, what envelopes are held by here (envelope/ring.py)
  signal     pid, signal                send a signal to the program's session and descendants
  end        pid, grace_s               SIGTERM to all of these, SIGKILL after the grace
  processes  open                       → processes: [{pid, ppid, session, state, argv, cwd, open}]
  tasks      -                          → tasks: processes and threads of the Run, its init included
  tcp_tables -                          → tables: the contents of /proc/net/tcp and tcp6
  freeze     -                          stop all programs; answered when all threads are stopped
  thaw       -                          continue the programs that `freeze` stopped
  quiet      grace_s                    end all programs and refuse new ones; answered when none is left
  stop       grace_s                    end all programs, then the init

When a client disconnects, the programs it started are ended unless they were started with `keep`. Output that nobody
reads any more is read and discarded, so that background processes of a command do not die of SIGPIPE.
"""

import array
import json
import os
import socket
import struct

PROTOCOL = 1
MAX_FRAME = 16 << 20  # bytes
MAX_BACKLOG = 4 << 20  # bytes not yet read by a client; beyond that it is dropped


class Refused(Exception):
    """A request cannot be carried out; the text is returned to the client as `error`."""


class Client:
    """One connection with its buffers, and the programs started over it."""

    def __init__(self, sock):
        self.sock = sock
        self.received = bytearray()
        self.fds = []
        self.outgoing = []  # [bytes, fds to send with them]
        self.started = {}  # pid → Program

    def send(self, message, fds=()):
        body = json.dumps(message).encode()
        self.outgoing.append([struct.pack(">I", len(body)) + body, list(fds)])

    def flush(self):
        """Send what the socket takes; return False if the client is gone or its backlog is full."""
        while self.outgoing:
            data, fds = self.outgoing[0]
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
            try:
                sent = self.sock.sendmsg([data], rights)
            except BlockingIOError:
                return sum(len(entry[0]) for entry in self.outgoing) < MAX_BACKLOG
            except OSError:
                return False
            for fd in fds:
                os.close(fd)
            self.outgoing[0] = [data[sent:], []]
            if sent == len(data):
                self.outgoing.pop(0)
        return True

    def receive(self):
        """Return the complete requests that have arrived, or None if the client is gone."""
        try:
            data, rights, _flags, _address = self.sock.recvmsg(
                1 << 16, socket.CMSG_SPACE(16 * 4), socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return []
        except OSError:
            return None
        for level, kind, payload in rights:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds = array.array("i")
                fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
                self.fds.extend(fds)
        if not data:
            return None
        self.received += data
        requests = []
        while len(self.received) >= 4:
            (length,) = struct.unpack_from(">I", self.received)
            if length > MAX_FRAME:
                return None
            if len(self.received) < 4 + length:
                break
            requests.append(json.loads(bytes(self.received[4 : 4 + length])))
            del self.received[: 4 + length]
        return requests

    def close(self):
        """Close the socket and all descriptors in transit."""
        for fd in self.fds + [fd for _data, fds in self.outgoing for fd in fds]:
            os.close(fd)
        self.sock.close()
