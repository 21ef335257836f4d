"""The folder of one command or terminal: what the host process is told, and what it leaves behind.

spec.json   what to run (HostSpec)
claim       made once, by whoever is first: the host that runs it, or a runner that proves it never ran
host.json   the host is about to start the program, or has (then with the program's pid)
socket      the live side (host.py)
output…     the recording (recording.py), with `index…` and `sizes`
exit.json   how it ended (Exit); the last thing that is written
"""

import json
import os
import signal
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from ..drivers.base import Address, DriverError, boot_id, start_time, this_host
from ..drivers.local import replace_file

PROTOCOL = 3  # of this host; a client speaks what the host in front of it does, see client.py
MIB = 1 << 20


@dataclass(frozen=True)
class HostSpec:
    """One program to run in a Run. Names that are not UTF-8 are strings as `os.fsdecode` makes them."""

    argv: tuple[str, ...]
    address: Address
    cwd: str | None = None  # None: the tree
    env: Mapping[str, str] = field(default_factory=dict)  # beside what every program of the Run has
    pty: bool = False
    cols: int = 80
    rows: int = 24
    timeout_s: float | None = None
    cap_bytes: int = 64 * MIB  # of output that are kept

    @classmethod
    def shell(cls, command: bytes | str, address: Address, **fields) -> "HostSpec":
        """A command line for the shell, byte by byte as given."""
        text = os.fsdecode(command)
        if "\0" in text:
            raise DriverError("A command cannot contain a NUL byte.")
        return cls((address.shell, "-c", text), address, **fields)

    def to_json(self) -> bytes:
        # Lone surrogates, which stand for bytes that are not UTF-8, are escaped and so survive.
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, text: bytes) -> "HostSpec":
        data = json.loads(text)
        return cls(**data | {"argv": tuple(data["argv"]), "address": Address(**data["address"])})


@dataclass(frozen=True)
class Handed:
    """What a host is told in memory and nobody writes down: a Run's secrets."""

    env: Mapping[str, str] = field(default_factory=dict)  # for the program
    hidden: tuple[tuple[str, str], ...] = ()  # (name, value): taken out of what is recorded
    packages: str = ""  # the folder of the packages that this needs; a host starts without any

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode() if self.env or self.hidden else b""

    @classmethod
    def from_json(cls, text: bytes) -> "Handed":
        data = json.loads(text) if text else {}
        hidden = tuple((name, value) for name, value in data.get("hidden", ()))
        return cls(data.get("env", {}), hidden, data.get("packages", ""))

    def __repr__(self) -> str:
        return f"Handed({len(self.env)} values)"  # they would be in a traceback, and that in a log


@dataclass(frozen=True)
class Exit:
    """How a program ended. `exit_status` or `signal`, unless nobody saw it (lost), it never ran (not_started), or it
    slept with the memory of its Run and that went (forgotten)."""

    reason: str  # exited | timeout | cancelled | oom | lost | forgotten | not_started
    exit_status: int | None = None
    signal: int | None = None
    started_at: str | None = None  # RFC 3339, this host's clock
    ended_at: str | None = None
    seconds: float | None = None
    output_bytes: int = 0  # all, kept or not
    truncated: bool = False
    oom_kills: int = 0  # programs of the Run that were killed for memory meanwhile
    leftovers: tuple[str, ...] = ()  # what the command left running, as `pid argv`
    error: str = ""  # forgotten, not_started: why

    def words(self) -> str:
        """For a person: `exit 1`, `killed by SIGKILL: out of memory`, …"""
        how = f"exit {self.exit_status}" if self.exit_status is not None else ""
        if self.signal is not None:
            how = f"killed by {_signal_name(self.signal)}"
        why = {
            "exited": "",
            "timeout": "it ran longer than it may",
            "cancelled": "cancelled",
            "oom": "out of memory",
            "lost": "its end was not seen: the process that watched it was killed",
            "forgotten": f"it ended in its sleep: {self.error}",
            "not_started": f"it could not be started: {self.error}",
        }[self.reason]
        if self.reason == "exited" and self.oom_kills:
            why = "a program was killed because memory ran out"
        return ": ".join(part for part in (how, why) if part)


@dataclass(frozen=True)
class HostStatus:
    """`running`, `exited` (with `exit`), `never_started`, or `lost` (host gone, no word of the end)."""

    state: str
    exit: Exit | None = None
    host_pid: int | None = None
    program_pid: int | None = None  # as the Run's init counts
    protocol: int | None = None


def identity() -> dict:
    """Who this process is, so that any other can tell whether it still lives."""
    pid = os.getpid()
    return {
        "protocol": PROTOCOL,
        "host": this_host(),
        "boot_id": boot_id(),
        "pid": pid,
        "start_time": start_time(pid),
        "at": now(),
    }


def claim(folder: Path, by: str) -> bool:
    """Be the first, durably; False when somebody was. After a claim by anybody but a host the program never runs."""
    fresh = folder / f"claim.{os.getpid()}"
    with open(fresh, "w") as file:
        json.dump({"by": by, **identity()}, file)
        file.flush()
        os.fsync(file.fileno())
    try:
        # A link, so that the file is never there without its content.
        os.link(fresh, folder / "claim")
    except FileExistsError:
        return False
    finally:
        fresh.unlink()
    _sync_folder(folder)
    return True


def read_status(folder: Path) -> HostStatus:
    """The truth from the files alone; says `running` only of a host process that exists."""
    folder = Path(folder)
    if (found := read_exit(folder)) is not None:
        state = "never_started" if found.reason == "not_started" else "exited"
        return HostStatus(state, found)
    claimed = _read_json(folder / "claim")
    if claimed is None or claimed["by"] != "host":
        return HostStatus("never_started")
    host = _read_json(folder / "host.json")
    program = host.get("program_pid") if host else None
    same_boot = claimed["boot_id"] == boot_id()
    if claimed["host"] != this_host():
        raise DriverError(f"This program was started on the host {claimed['host']}; only that host can tell.")
    if same_boot and start_time(claimed["pid"]) == claimed["start_time"]:
        return HostStatus("running", None, claimed["pid"], program, claimed["protocol"])
    if (found := read_exit(folder)) is not None:  # it ended while we looked
        return HostStatus("exited", found)
    # host.json comes before the start but is not forced to disk: it proves nothing after a power cut.
    state = "never_started" if host is None and same_boot else "lost"
    return HostStatus(state, None, claimed["pid"], program, claimed["protocol"])


def read_exit(folder: Path) -> Exit | None:
    data = _read_json(folder / "exit.json")
    return None if data is None else Exit(**data | {"leftovers": tuple(data["leftovers"])})


def write_exit(folder: Path, end: Exit) -> None:
    replace_file(folder / "exit.json", json.dumps(asdict(end)).encode())


def read_spec(folder: Path) -> HostSpec:
    try:
        return HostSpec.from_json((Path(folder) / "spec.json").read_bytes())
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DriverError(f"There is no readable spec.json in {folder}.") from error


def write_spec(folder: Path, spec: HostSpec) -> None:
    """Say what to run; the first word counts."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix="spec.", delete=True) as file:
        file.write(spec.to_json())
        file.flush()
        try:
            os.link(file.name, folder / "spec.json")
        except FileExistsError:
            pass


def replace_spec(folder: Path, spec: HostSpec) -> None:
    """Say where it runs now: in another Run, from kept memory."""
    replace_file(folder / "spec.json", spec.to_json())


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _read_json(path: Path) -> dict | None:
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
