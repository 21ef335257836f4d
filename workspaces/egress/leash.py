"""A credential's leash: at which host it is put into a request, below which paths, with which methods.

A program has a stand-in for it. Only a request that shows the stand-in in the credential's header is given the real
value, and only over TLS that this proxy opened.
"""

import base64
import binascii
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from .names import HANDRAIL, BadName, host_and_port
from .own_loopback import addresses_of

PORT = 443
READ = "READ"
METHOD = re.compile(r"[A-Z]{1,20}")
HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,60}")
OVERRIDES = frozenset(
    ("x-http-method-override", "x-http-method", "x-method-override", "x-original-url", "x-rewrite-url")
)
# Of the connection or the proxy itself, or read by servers in ways of their own.
NOT_A_CREDENTIAL = frozenset(
    (
        *("host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "expect", "via"),
        *("proxy-authorization", "forwarded", "content-type", "accept-encoding", "range"),
        *OVERRIDES,
    )
)
# With these an answer could bring the value in parts, none of which is known for one.
IN_PARTS = frozenset(("range", "if-range"))
# What servers read differently: encoded separators, dots and control characters, also in an overlong form or as
# letters that some make plain (U+2024, U+2025, U+FE52, U+FF0E); a % that begins nothing, as in %u002e and %%32%65;
# empty and dotted segments, parameters, backslashes.
UNCLEAR_PATH = re.compile(
    r"(?i)%(?![0-9a-f]{2})|//|/\.{1,2}(?=/|$)|[;\\]|"
    r"%(?:2[ef5]|5c|3b|[01][0-9a-f]|7f|c[01]|e0%[89]|f0%8|f[8c]%8|e2%80%a[45]|ef%b[9c])"
)
MAX_HOSTS, MAX_PATHS = 20, 50


class BadLeash(ValueError):
    """A leash or header that means nothing; the message can be shown."""


@dataclass(frozen=True)
class Scope:
    """Requests to one host. `*` at the end of a path is anything below; elsewhere it is one segment."""

    paths: tuple[str, ...]
    methods: frozenset[str]  # "*": any; READ: all that only read (reads.py)

    def covers(self, method: str, path: str, *, reads: bool = False) -> bool:
        """Return whether a request is among them; one whose path can be read in more than one way seldom is."""
        fits = "*" in self.methods or (method != READ and method in self.methods) or (reads and READ in self.methods)
        if not fits:
            return False
        return "/*" in self.paths or (is_clear_path(path) and any(_names(one, path) for one in self.paths))


@dataclass(frozen=True)
class HostLeash(Scope):
    """What a credential may do at one host."""

    host: str
    port: int


def is_clear_path(path: str) -> bool:
    """Return whether servers agree on which resource a path names."""
    return not UNCLEAR_PATH.search(path)


def _names(one: str, path: str) -> bool:
    """Return whether a path of a leash names this path: `*` is within one folder, and anything at the end."""
    is_open = one.endswith("*")
    wanted, given = one.split("/"), path.split("/")
    if len(given) != len(wanted) and not (is_open and len(given) > len(wanted)):
        return False
    return all(map(_names_part, wanted, given))


def _names_part(wanted: str, given: str) -> bool:
    """Return whether a part of a path with `*` names this part, in linear time."""
    first, *rest = wanted.split("*")
    if not rest:
        return wanted == given
    *middle, last = rest
    at = len(first)
    if not given.startswith(first):
        return False
    for piece in middle:
        found = given.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return len(given) - at >= len(last) and given.endswith(last)


@dataclass(frozen=True)
class Leashed:
    """A credential as the proxy holds it for one Run; `id` is that of its row."""

    id: str
    name: str
    header: str  # in lower case
    stand_in: str = field(repr=False)
    value: str = field(repr=False)
    hosts: tuple[HostLeash, ...]

    def at(self, host: str, port: int) -> HostLeash | None:
        return next((one for one in self.hosts if (one.host, one.port) == (host, port)), None)

    def put_into(self, shown: str) -> str | None:
        """Return a header's value with the real one in the place of the stand-in; None if it does not show that."""
        if self.stand_in in shown:
            return shown.replace(self.stand_in, self.value)
        scheme, _, coded = shown.partition(" ")
        if scheme.lower() != "basic":
            return None
        try:
            plain = base64.b64decode(coded.strip(), validate=True)
        except binascii.Error:
            return None
        if self.stand_in.encode() not in plain:
            return None
        return f"{scheme} {base64.b64encode(plain.replace(self.stand_in.encode(), self.value.encode())).decode()}"


def read_header(text: str) -> tuple[str, str]:
    """Return (name, template) of `Authorization: Bearer {}`. Raise BadLeash."""
    name, colon, template = text.partition(":")
    template = template.strip()
    if not colon or not HEADER.fullmatch(name) or template.count("{}") != 1 or not template.isprintable():
        raise BadLeash("A header is a name and a value with {} for the credential, such as Authorization: Bearer {}.")
    if name.lower() in NOT_A_CREDENTIAL or not template.isascii():
        raise BadLeash(f"The header {name} can't hold a credential.")
    return name, template


def read_host(wish: dict) -> HostLeash:
    """Return the leash of {host, paths, methods}. Raise BadLeash."""
    if "/" in wish["host"]:
        raise BadLeash(f"{wish['host'][:100]!r}: name the host alone, such as api.github.com; its paths are in paths.")
    try:
        host, port = host_and_port(wish["host"], PORT)
    except BadName as error:
        raise BadLeash(f"{wish['host'][:100]!r}: {error}") from None
    if host == HANDRAIL or addresses_of(host):
        raise BadLeash(f"{host} is the workspace's own loopback or Handrail itself, where no credential is put in.")
    if port == 80:
        raise BadLeash("A credential goes over TLS alone, which port 80 is not for.")
    scope = read_scope(wish.get("paths") or (), wish.get("methods") or ())
    return HostLeash(scope.paths, scope.methods, host, port)


def read_scope(paths: Iterable[str], methods: Iterable[str]) -> Scope:
    """Return the scope of these paths and methods; without any, all paths and GET. Raise BadLeash."""
    paths, methods = tuple(paths) or ("/*",), [one.upper() for one in methods] or ["GET"]
    for path in paths:
        is_plain = path.startswith("/") and not set("?#") & set(path) and path.isprintable() and " " not in path
        if not is_plain or UNCLEAR_PATH.search(path):
            raise BadLeash(f"{path[:100]!r} is no path: it begins with / and can be read in one way, as /repos/acme/*.")
    if len(paths) > MAX_PATHS:
        raise BadLeash(f"At most {MAX_PATHS} paths at one host.")
    if not all(one == "*" or METHOD.fullmatch(one) for one in methods):
        raise BadLeash("A method is a word such as GET or POST; READ is all that only reads, and * is any.")
    more = {"HEAD"} if "GET" in methods else set()
    return Scope(paths, frozenset(methods) | more)


def read_words(line: str) -> dict:
    """Return {host, methods, paths} of a line as people write it: `api.github.com GET,POST /repos/acme/*`."""
    host, *words = line.split()
    methods = words.pop(0).split(",") if words and not words[0].startswith("/") else []
    return {"host": host, "methods": methods, "paths": words}


def written(one: dict) -> str:
    """Return {host, methods, paths} as people write it."""
    return " ".join([one["host"], ",".join(one["methods"]), *one["paths"]])
