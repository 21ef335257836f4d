"""The folder of one command or terminal: the shim's input and what it leaves behind.

spec.json   what to run (ShimSpec)
claim       created once, by the shim that runs it or by a recovery that makes sure it never runs
shim.json   the shim is about to start the program, or has (then with the program's pid)
socket      the shim's API (viewers.py)
output…     the recording (recording.py), with `index…` and `sizes`
exit.json   how it ended (Exit); written last
"""

import json
import os
import signal
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from dashboard.files.atomic_write import create_file, replace_file
from workspaces.drivers.base import Address, DriverError
from workspaces.drivers.processes import boot_id, start_time, this_host

MIB = 1 << 20
REDACTION_DELAY_S = 0.25  # how long output that may begin a secret is held back


@dataclass(frozen=True)
class ShimSpec:
    """One program to run in a Run. Names that are not UTF-8 are decoded by `os.fsdecode`."""

    argv: tuple[str, ...]
    address: Address
    cwd: str | None = None  # None: the tree
    env: Mapping[str, str] = field(default_factory=dict)  # added to the environment of every program of the Run
    pty: bool = False
    cols: int = 80
    rows: int = 24
    timeout_s: float | None = None
    cap_bytes: int = 64 * MIB  # most bytes of output kept
    ring: Mapping | None = None  # {envelope, workspace, home}: the program is held to the envelope, or does not start
    kept_as: str = ""  # the name under which a pod keeps what it prints, for a shim on another host
    began_at: str = ""  # RFC 3339; when it began, of a program that another host started and this shim adopts

    @classmethod
    def shell(cls, command: bytes | str, address: Address, **fields) -> "ShimSpec":
        """Return the spec of a shell command line, passed on byte for byte."""
        text = os.fsdecode(command)
        if "\0" in text:
            raise DriverError("A command cannot contain a NUL byte.")
        return cls((address.shell, "-c", text), address, **fields)

    def to_json(self) -> bytes:
        # JSON escapes lone surrogates, which stand for bytes that are not UTF-8, so they survive.
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, text: bytes) -> "ShimSpec":
        data = json.loads(text)
        return cls(**data | {"argv": tuple(data["argv"]), "address": Address.of(data["address"])})


@dataclass(frozen=True)
class Handed:
    """What a shim gets in memory and never on disk: a Run's secrets."""

    env: Mapping[str, str] = field(default_factory=dict)  # for the program
    hidden: tuple[tuple[str, str], ...] = ()  # (name, value): redacted from the recording
    packages: str = ""  # site-packages folder that redaction needs; a shim starts without any

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode() if self.env or self.hidden else b""

    @classmethod
    def from_json(cls, text: bytes) -> "Handed":
        data = json.loads(text) if text else {}
        hidden = tuple((name, value) for name, value in data.get("hidden", ()))
        return cls(data.get("env", {}), hidden, data.get("packages", ""))

    def __repr__(self) -> str:
        return f"Handed({len(self.env)} values)"  # a traceback in a log must not show the values


@dataclass(frozen=True)
class Exit:
    """How a program ended.

    Has `exit_status` or `signal`, unless the end was not seen (lost), the program never ran (not_started), or it was
    suspended and the memory of its Run was discarded (forgotten).
    """

    reason: str  # exited | timeout | cancelled | oom | lost | forgotten | not_started
    exit_status: int | None = None
    signal: int | None = None
    started_at: str | None = None  # RFC 3339, this host's clock
    ended_at: str | None = None
    seconds: float | None = None
    output_bytes: int = 0  # all output, kept or not
    truncated: bool = False
    oom_kills: int = 0  # out-of-memory kills in the Run meanwhile
    leftovers: tuple[str, ...] = ()  # processes the command left running, as `pid argv`
    error: str = ""  # the cause if forgotten or not_started
    held: bool = False  # it ran in an envelope
    blocked: tuple[Mapping, ...] = ()  # what the envelope refused, as far as the kernel says: {kind, what}

    def message(self) -> str:
        """Return a message for people, such as `exit 1` or `killed by SIGKILL: out of memory`."""
        how = f"exit {self.exit_status}" if self.exit_status is not None else ""
        if self.signal is not None:
            how = f"killed by {_signal_name(self.signal)}"
        why = {
            "exited": "",
            "timeout": "it ran longer than it may",
            "cancelled": "cancelled",
            "oom": "out of memory",
            "lost": "its end was not seen: the process that watched it was killed",
            "forgotten": f"it ended while its workspace was paused: {self.error}",
            "not_started": f"it could not be started: {self.error}",
        }[self.reason]
        if self.reason == "exited" and self.oom_kills:
            why = "a program was killed because memory ran out"
        return ": ".join(part for part in (how, why) if part)


@dataclass(frozen=True)
class ShimStatus:
    """`running`, `exited` (with `exit`), `never_started`, or `lost` (the shim is gone and left no exit.json)."""

    state: str
    exit: Exit | None = None
    shim_pid: int | None = None
    program_pid: int | None = None  # as the Run's init reports it


def identity() -> dict:
    """Return the identity of this process, by which another process can tell whether it still lives."""
    pid = os.getpid()
    return {
        "host": this_host(),
        "boot_id": boot_id(),
        "pid": pid,
        "start_time": start_time(pid),
        "at": now(),
    }


def claim(folder: Path, by: str) -> bool:
    """Claim the folder durably. Return False if it was claimed before.

    After a claim by anything but a shim (`by="shim"`) the program never runs.
    """
    return create_file(folder / "claim", json.dumps({"by": by, **identity()}).encode())


def read_status(folder: Path) -> ShimStatus:
    """Return the state according to the files alone; `running` only if the shim process exists.

    Raise DriverError for a program that another host started.
    """
    folder = Path(folder)
    if (found := read_exit(folder)) is not None:
        state = "never_started" if found.reason == "not_started" else "exited"
        return ShimStatus(state, found)
    claimed = _read_json(folder / "claim")
    if claimed is None or claimed["by"] != "shim":
        return ShimStatus("never_started")
    shim = _read_json(folder / "shim.json")
    program = shim.get("program_pid") if shim else None
    same_boot = claimed["boot_id"] == boot_id()
    if claimed["host"] != this_host():
        raise DriverError(f"This program was started on the host {claimed['host']}; only that host can tell.")
    if same_boot and start_time(claimed["pid"]) == claimed["start_time"]:
        return ShimStatus("running", None, claimed["pid"], program)
    if (found := read_exit(folder)) is not None:  # it ended since the check above
        return ShimStatus("exited", found)
    # shim.json is written before the start but without fsync, so its absence proves nothing after a power cut.
    state = "never_started" if shim is None and same_boot else "lost"
    return ShimStatus(state, None, claimed["pid"], program)


def read_exit(folder: Path) -> Exit | None:
    data = _read_json(folder / "exit.json")
    if data is None:
        return None
    return Exit(**data | {name: tuple(data.get(name, ())) for name in ("leftovers", "blocked")})


def write_exit(folder: Path, end: Exit) -> None:
    replace_file(folder / "exit.json", json.dumps(asdict(end)).encode())


def read_spec(folder: Path) -> ShimSpec:
    try:
        return ShimSpec.from_json((Path(folder) / "spec.json").read_bytes())
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DriverError(f"There is no readable spec.json in {folder}.") from error


def write_spec(folder: Path, spec: ShimSpec) -> None:
    """Write spec.json unless it exists: the first spec counts."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix="spec.", delete=True) as file:
        file.write(spec.to_json())
        file.flush()
        try:
            os.link(file.name, folder / "spec.json")
        except FileExistsError:
            pass


def replace_spec(folder: Path, spec: ShimSpec) -> None:
    """Overwrite spec.json with the program's new address after its memory was resumed in another Run."""
    replace_file(folder / "spec.json", spec.to_json())


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _read_json(path: Path) -> dict | None:
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
