"""Tickets: what the runner has allowed to run once, for the program that brings the command (`../handrail_run.py`)."""

import os
import time

from .protocol import Refused
from .spawn import shell

MAX_TICKETS = 100  # unused ones that are kept
# Evaluate the command as the agent's own shell would, then say where it is. The evaluated command does not get the
# descriptor of that line; a shell that it leaves in the background keeps it, so the reader must not wait for its end.
SCRIPT = 'eval "$1" 3>&-; handrail_status=$?; pwd -P >&3; exit "$handrail_status"'


class Tickets:
    """Unused tickets of a Run, each bound to a command, a folder and an envelope."""

    def __init__(self):
        self.unused = {}  # ticket: (command, cwd, ring, when it expires), the oldest first
        self.running = {}  # pid: ticket
        self.blocked = {}  # ticket: what was refused to its command, which has ended; the oldest first

    def add(self, asked):
        """Keep the ticket of a request: {ticket, command, cwd, ring, seconds}."""
        ticket, command, cwd = (str(asked[name]) for name in ("ticket", "command", "cwd"))
        if ticket in self.unused or not isinstance(asked["ring"], dict):
            raise Refused("the ticket is not a new one, or has no envelope")
        self.unused[ticket] = (command, cwd, asked["ring"], time.monotonic() + float(asked["seconds"]))
        while len(self.unused) > MAX_TICKETS:
            del self.unused[next(iter(self.unused))]

    def run(self, init, client, asked, fds):
        """Start the command that a ticket allows, in its ring.

        Four descriptors come with it: input, output, errors, and the line on which its last folder is told. With
        `cols` and `rows` only the line comes, and the command gets a terminal. Returns {pid}; or {redaction} if the
        output must be redacted (`redaction_to_come`), and then nothing has started.
        """
        given, client.fds = client.fds, []
        is_terminal = "cols" in asked
        try:
            init.refuse_unless_open()
            if redaction := self.redaction_to_come(asked):
                for fd in given:
                    os.close(fd)
                return {"redaction": redaction}
            if len(given) != (1 if is_terminal else 4) or (is_terminal and asked.get("redacted")):
                raise Refused("the wrong number of file descriptors came with the command")
            ring = self.use(asked)
            argv = [shell(), "-c", SCRIPT, "bash", asked["command"]]
            wanted = {
                "argv": argv,
                "env": asked["env"] | ring.get("variables", {}) | reading(ring, asked["env"]),
                "cwd": asked["cwd"],
                "ring": ring,
            }
            stdio = init.open_terminal(asked, fds) * 3 + given if is_terminal else given
        except BaseException:
            for fd in given:
                os.close(fd)
            raise
        program = init.launch(client, wanted, stdio, controlling=is_terminal)
        self.running[program.pid] = str(asked["ticket"])
        if seconds := ring["envelope"].get("seconds"):
            init.deadlines.append((time.monotonic() + seconds, lambda: program.ended or init.end(program.pid, 5.0)))
        return {"pid": program.pid}

    def redaction_to_come(self, asked):
        """Return what must redact the output of a ticket's command first: {command, hidden}; None if nothing must.

        The caller then asks again, with `redacted`, and with pipes to that command as the output.
        """
        if asked.get("redacted"):
            return None
        command, cwd, ring, _until = self.unused.get(str(asked["ticket"]), (None, None, {}, 0))
        return ring.get("redaction") if (command, cwd) == (asked["command"], asked["cwd"]) else None

    def ended(self, pid, blocked):
        """Keep what was refused to the command of a ticket, if this program is one."""
        ticket = self.running.pop(pid, None)
        if ticket is not None:
            self.blocked[ticket] = blocked
        while len(self.blocked) > MAX_TICKETS:
            del self.blocked[next(iter(self.blocked))]

    def use(self, asked):
        """Return the ring for {ticket, command, cwd}; raise Refused. A ticket is gone after the first use."""
        found = self.unused.pop(str(asked["ticket"]), None)
        if found is None:
            raise Refused("this ticket is unknown or was used before")
        command, cwd, ring, until = found
        if time.monotonic() > until:
            raise Refused("this ticket has expired")
        if asked["command"] != command:
            raise Refused("this ticket is for another command")
        if asked["cwd"] != cwd:
            raise Refused(f"this ticket is for {cwd}, not {asked['cwd']}")
        return ring


def reading(ring, env):
    """Return the variables of a command that reads at the code host: its ticket, and the programs that ask for them."""
    reads = ring.get("reads")
    if not reads:
        return {}
    path = env.get("PATH", os.defpath)
    return {"PATH": f"{reads['bin']}:{path}", "HANDRAIL_READS": reads["ticket"]}
