"""Facts that identify a process (host, boot, start time), and the TCP tables of its network namespace."""

import os
import socket
from pathlib import Path


def tcp_tables_of(pid: int) -> list[str]:
    """Return the contents of /proc/net/tcp and tcp6 of a process; none if it shares our network namespace."""
    try:
        if os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            return []
    except OSError:
        pass  # not readable: it belongs to another user, in a namespace of its own
    tables = []
    for name in ("tcp", "tcp6"):
        try:
            tables.append(Path(f"/proc/{pid}/net/{name}").read_text())
        except OSError:
            continue  # the process has just ended, or there is no IPv6
    return tables


def this_host() -> str:
    return socket.gethostname()


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_time(pid: int) -> int | None:
    """Return when `pid` started, in clock ticks since boot, or None; pid and start time identify one process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    # A zombie counts as gone: it only waits to be reaped.
    return None if fields[0] in (b"Z", b"X") else int(fields[19])
