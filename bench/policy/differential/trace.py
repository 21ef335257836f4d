"""Read strace's log: which programs were started, which files were opened, and which addresses were tried, by case."""

import re
from dataclasses import dataclass, field

UNFINISHED = " <unfinished ...>"
RESUMED = re.compile(r"<\.\.\. \w+ resumed>")
MARK = re.compile(r'openat?\([^"]*"/\.case/(\w+)"')
CALL = re.compile(r"(\w+)\((.*)\) += (-?\d+|\?)(?:<(.*)>)?")
QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
ADDRESS = re.compile(r"sa_family=(AF_\w+)[^}]*")
ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"v": b"\v", b"f": b"\f"}
WRITING = ("O_WRONLY", "O_RDWR", "O_TRUNC", "O_CREAT")


@dataclass
class Deed:
    """What a command did: its result (see `inside.py`) and what the trace shows."""

    result: dict
    calls: list = field(default_factory=list)

    @property
    def started(self):
        """The programs, as [(path, arguments)]."""
        return [(path, more) for kind, path, more in self.calls if kind == "exec"]

    @property
    def read(self):
        return [path for kind, path, _ in self.calls if kind == "read"]

    @property
    def listed(self):
        return [path for kind, path, _ in self.calls if kind == "list"]

    @property
    def contacted(self):
        return [address for kind, address, _ in self.calls if kind == "connect"]


def read(path):
    """Return {number of the case: [(kind, path or address, arguments)]}."""
    found, calls, halves = {}, [], {}
    with open(path, encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            process, _, text = line.rstrip("\n").partition(" ")
            text = text.lstrip()
            if text.endswith(UNFINISHED):
                halves[process] = text.removesuffix(UNFINISHED)
                continue
            if text.startswith("<... "):
                text = halves.pop(process, "") + RESUMED.sub("", text, count=1)
            mark = MARK.match(text)
            if mark:
                calls = found.setdefault(int(mark[1]), []) if mark[1].isdecimal() else []
                continue
            call = _call(text)
            if call:
                calls.append(call)
    return found


def _call(text):
    match = CALL.match(text)
    if not match:
        return None
    name, inside, result, shown = match.groups()
    if name in ("connect", "bind", "sendto", "sendmsg"):
        address = ADDRESS.search(inside)
        return ("connect", address[0], None) if address and address[1] in ("AF_INET", "AF_INET6") else None
    if result.startswith("-") or result == "?":
        return None
    if name.startswith("exec"):
        quoted = [_plain(text) for text in QUOTED.findall(inside)]
        return ("exec", quoted[0], quoted[1:])
    kind = "write" if any(flag in inside for flag in WRITING) else "list" if "O_DIRECTORY" in inside else "read"
    return (kind, _plain(shown or ""), None)


def _plain(text):
    if "\\" not in text:
        return text
    raw = text.encode("utf-8", "surrogateescape")

    def replaced(match):
        code = match[1]
        return bytes([int(code, 8) & 255]) if code[:1].isdigit() else LETTERS.get(code, code)

    return ESCAPE.sub(replaced, raw).decode("utf-8", "surrogateescape")
