"""An envelope as data: what a program may read, write and reach, and for how long."""

from dataclasses import asdict, dataclass

READ_WORDS = frozenset({"workspace", "toolchains"})
WRITE_WORDS = frozenset({"scratch", "workspace", "caches"})
NETWORK_WORDS = frozenset({"loopback", "hosts"})
RARE = ("replaces", "removes", "redacted")  # lists that are left out of the JSON while they are empty
LISTS = ("read", "write", "network", *RARE)
FIELDS = frozenset({*LISTS, "seconds"})
MAX_ENTRIES = 256  # in one list
MAX_ENTRY = 4096  # characters of one entry


@dataclass(frozen=True)
class Envelope:
    """What one program may do.

    `read` and `write` hold words or absolute paths: "workspace"; "toolchains" (system programs, libraries and language
    toolchains); "scratch" (a private /tmp); "caches" (those of known tools, in the home). What may be written may be
    read. `network` holds "loopback" (the Run's own), "hosts" (those that the environment's list allows) or "host:port";
    if it is empty, the program has no sockets but pairs of its own. `seconds` limits the run time, None: no limit.
    `replaces` holds absolute paths that may be made, changed, replaced and moved away, `removes` those that may be
    removed or moved away, with all below them (`names.py`); a shell's wildcards in them stand for what is there, and
    `FOLDER/**` or `FOLDER/**/NAME` for what is below a folder, at any depth.
    `redacted` holds absolute paths of secret files that may be read, but whose values its output must not show.
    """

    read: tuple = ()
    write: tuple = ()
    network: tuple = ()
    seconds: "int | None" = None
    redacted: tuple = ()
    replaces: tuple = ()
    removes: tuple = ()

    def __post_init__(self):
        for name, words in (("read", READ_WORDS), ("write", WRITE_WORDS)):
            for entry in _entries(self, name):
                if entry not in words and not _is_plain_path(entry):
                    raise ValueError(f"{entry!r} is no word and no absolute path for {name} of an envelope")
        for name in RARE:
            for entry in _entries(self, name):
                if not _is_plain_path(entry):
                    raise ValueError(f"{entry!r} is no absolute path for {name} of an envelope")
        for entry in _entries(self, "network"):
            if entry not in NETWORK_WORDS and not _is_host_and_port(entry):
                raise ValueError(f"{entry!r} is neither loopback, hosts nor host:port")
        if self.seconds is not None and (type(self.seconds) is not int or self.seconds <= 0):
            raise ValueError("the seconds of an envelope must be a positive number")

    def to_json(self):
        """Return a dict of lists, as the policy answers and as rows keep it."""
        fields = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        return {name: value for name, value in fields.items() if name not in RARE or value}

    @classmethod
    def from_json(cls, data):
        """Return the envelope of such a dict; raise ValueError for anything else, so that nothing is dropped."""
        if not isinstance(data, dict) or not FIELDS.issuperset(data):
            raise ValueError(f"an envelope has {', '.join(LISTS)} and seconds")
        for name in LISTS:
            if not isinstance(data.get(name, []), (list, tuple)):
                raise ValueError(f"{name} of an envelope must be a list")
        lists = {name: tuple(data.get(name, ())) for name in LISTS}
        return cls(**lists, seconds=data.get("seconds"))

    def wider(self, other):
        """Return an envelope that allows what either allows."""
        both = {name: tuple(dict.fromkeys(getattr(self, name) + getattr(other, name))) for name in LISTS}
        limits = (self.seconds, other.seconds)
        return Envelope(**both, seconds=None if None in limits else max(limits))


def _entries(envelope, name):
    entries = getattr(envelope, name)
    if not isinstance(entries, tuple) or len(entries) > MAX_ENTRIES:
        raise ValueError(f"{name} of an envelope must be a list of at most {MAX_ENTRIES} entries")
    for entry in entries:
        if not isinstance(entry, str) or not 0 < len(entry) <= MAX_ENTRY or "\0" in entry:
            raise ValueError(f"{name} of an envelope holds something that is no plain text")
    return entries


def _is_plain_path(entry):
    """Return whether it is an absolute path without `.`, `..` and empty parts, and not the root."""
    return entry[:1] == "/" and entry != "/" and not {"", ".", ".."}.intersection(entry[1:].split("/"))


def _is_host_and_port(entry):
    host, colon, port = entry.rpartition(":")
    return bool(host and colon) and port.isascii() and port.isdigit() and 0 < int(port) < 65536


LOW = Envelope(read=("workspace", "toolchains"), write=("scratch",))
MEDIUM = Envelope(
    read=("workspace", "toolchains"), write=("scratch", "workspace", "caches"), network=("loopback", "hosts")
)
BY_TIER = {"low": LOW, "medium": MEDIUM}
