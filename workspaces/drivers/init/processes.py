"""The processes of a Run as /proc shows them, and signals to them."""

import os
import signal

# {pid: its subprocess.Popen} of what the init's own process started for itself: no programs of the Run.
helpers = {}


class ProcessInfo:
    """A process as read from /proc; `start_time` is its start time in clock ticks since boot."""

    def __init__(self, pid, ppid, session, state, start_time):
        self.pid, self.ppid, self.session, self.state, self.start_time = pid, ppid, session, state, start_time
        self.depth = 0

    def is_stopped(self):
        """Return whether every thread is stopped or dead."""
        try:
            return all(
                read_stat(f"/proc/{self.pid}/task/{thread}")[3] in "TtZX"
                for thread in os.listdir(f"/proc/{self.pid}/task")
            )
        except OSError:
            return not os.path.exists(f"/proc/{self.pid}")

    def argv(self):
        try:
            with open(f"/proc/{self.pid}/cmdline", "rb") as file:
                return [os.fsdecode(part) for part in file.read(1 << 16).split(b"\0")[:-1]]
        except OSError:
            return []

    def describe(self, with_open_files):
        found = {
            "pid": self.pid,
            "ppid": self.ppid,
            "session": self.session,
            "state": self.state,
            "argv": self.argv(),
            "cwd": read_link(f"/proc/{self.pid}/cwd"),
        }
        if with_open_files:
            found["open"] = sorted(open_files(self.pid))
        return found


def read_stat(folder):
    """Return (pid, ppid, session, state, start time) from a /proc stat file."""
    with open(folder + "/stat", "rb") as file:
        stat = file.read()
    fields = stat[stat.rindex(b")") + 2 :].split()
    return int(stat[: stat.index(b" ")]), int(fields[1]), int(fields[3]), fields[0].decode(), int(fields[19])


def processes():
    """Return every living descendant of the init but its helpers, parents first."""
    spared = {pid for pid, helper in list(helpers.items()) if helper.poll() is None}
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                seen = ProcessInfo(*read_stat("/proc/" + name))
            except (OSError, ValueError):
                continue  # ended meanwhile
            children.setdefault(seen.ppid, []).append(seen)
    found = []
    level = [child for child in children.get(os.getpid(), []) if child.pid not in spared]
    depth = 1
    while level:
        for seen in level:
            seen.depth = depth
        found += level
        level = [child for seen in level for child in children.get(seen.pid, [])]
        depth += 1
    return [seen for seen in found if seen.state not in "ZX"]


def tasks():
    """Return how many processes and threads there are in the namespace, as a limit counts them."""
    found = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                found += len(os.listdir(f"/proc/{name}/task"))
            except OSError:
                continue  # ended meanwhile
    return found


def tcp_tables():
    """Return the contents of /proc/net/tcp and tcp6, as far as there are such."""
    found = []
    for name in ("tcp", "tcp6"):
        try:
            with open(f"/proc/net/{name}") as file:
                found.append(file.read())
        except OSError:
            continue  # no IPv6
    return found


def members(pid, known=frozenset()):
    """Return the (pid, start time) of the program's session, its descendants, and those of `known`; parents first.

    In this order a shell gets its signal before it can see a child die and go on to its next line.
    """
    inside = {pid}
    found = []
    for seen in processes():  # parents first
        belongs = seen.pid == pid or seen.session == pid or (seen.pid, seen.start_time) in known
        if belongs or seen.ppid in inside:
            inside.add(seen.pid)
            found.append((seen.pid, seen.start_time))
    return found


def signal_all(number):
    """Send a signal to every process of the Run but the init."""
    if os.getpid() == 1 and not helpers:
        try:
            os.kill(-1, number)  # all processes of the namespace but the init, atomically
        except ProcessLookupError:
            pass
        return
    for seen in processes():
        send_signal(seen.pid, number)


def stop_all():
    """Stop every process of the Run but the init, and let helpers go on."""
    if os.getpid() != 1:
        signal_all(signal.SIGSTOP)
        return
    try:
        os.kill(-1, signal.SIGSTOP)  # those that fork all the time, too: none is missed between a listing and a signal
    except ProcessLookupError:
        pass
    continue_helpers()


def continue_helpers():
    """Let helpers go on that `stop_all` stopped; again later for one that was only just started."""
    for pid in list(helpers):
        send_signal(pid, signal.SIGCONT)


def send_signal(pid, number):
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def write_proc(pid, name, text):
    """Write to a file of /proc/PID; return whether the kernel took it."""
    # Called by the init after the program's exec: until then the child is not dumpable, so /proc/PID is root's.
    try:
        with open(f"/proc/{pid}/{name}", "w") as file:
            file.write(text)
    except OSError:
        return False
    return True


def read_link(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""


def open_files(pid):
    """Return the paths that a process has open or mapped, without those below /dev, /usr and /proc."""
    found = set()
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            found.add(read_link(f"/proc/{pid}/fd/{fd}"))
        with open(f"/proc/{pid}/maps", "rb") as file:
            for line in file:
                fields = line.rstrip(b"\n").split(None, 5)
                if len(fields) == 6:
                    found.add(os.fsdecode(fields[5]))
    except OSError:
        pass
    return {path for path in found if path.startswith("/") and not path.startswith(("/dev/", "/usr/", "/proc/"))}
