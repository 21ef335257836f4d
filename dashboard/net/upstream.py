"""A company's proxy: which connections pass it, and which files of certificates hold. Knows no Django.

`NO_PROXY` is written in many ways; here a rule means what most programs take it for: `example.org`, `.example.org` and
`*.example.org` are that host and all below it, `10.0.0.0/8` its addresses, `host:8443` one port, `*` everything.
"""

import ipaddress
import re
import ssl
import tomllib
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

from dashboard.net.addresses import in_url, is_loopback

PORTS = {"http": 3128, "https": 443}
RULE = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^:]+)(?::(?P<port>[0-9]{1,5}))?")
NAME = re.compile(r"[a-z0-9_.-]+")
NAMED = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


class ProxyRefused(OSError):
    """The proxy did not make the connection; the message is for people and has no credentials."""


@dataclass(frozen=True)
class ProxyAddress:
    """The proxy itself; `user` is `name:password` as in its address, "" without one."""

    scheme: str
    host: str
    port: int
    user: str = field(default="", repr=False)

    @property
    def shown(self) -> str:
        """Its address without the password."""
        return f"{self.scheme}://{in_url(self.host)}:{self.port}"

    @property
    def address(self) -> str:
        return f"{self.scheme}://{self.user}@{in_url(self.host)}:{self.port}" if self.user else self.shown

    @property
    def authorization(self) -> str:
        """The value of Proxy-Authorization, "" if it wants none."""
        name, _, password = self.user.partition(":")
        return f"Basic {b64encode(_plain(name) + b':' + _plain(password)).decode()}" if self.user else ""


def _plain(text: str) -> bytes:
    return unquote_to_bytes(text)


@dataclass(frozen=True)
class Exemption:
    """A rule of NO_PROXY: a name with all below it, or a network; "" as a name is everything."""

    name: str = ""
    network: ipaddress.IPv4Network | ipaddress.IPv6Network | None = None
    port: int | None = None

    def covers(self, host: str, port: int, addresses: Iterable[str]) -> bool:
        if self.port not in (None, port):
            return False
        if self.network is not None:
            return any(ipaddress.ip_address(one) in self.network for one in addresses)
        return not self.name or host == self.name or host.endswith(f".{self.name}")


@dataclass(frozen=True)
class Upstream:
    """The proxy that connections leave by, None for none; those that do not; and a file of further authorities."""

    proxy: ProxyAddress | None = None
    exemptions: tuple[Exemption, ...] = ()
    authorities: str = ""

    def on_the_way_to(self, host: str, port: int, addresses: Iterable[str] = ()) -> ProxyAddress | None:
        """Return the proxy for a connection, None if it goes straight. `addresses` are those that the name has here."""
        host = host.lower().removesuffix(".").removeprefix("[").removesuffix("]")
        if self.proxy is None or is_loopback(host):
            return None
        known = [*addresses, host] if _is_address(host) else list(addresses)
        return None if any(one.covers(host, port, known) for one in self.exemptions) else self.proxy

    @property
    def asks_for_addresses(self) -> bool:
        """Whether an exemption is a network, so that the addresses of a name matter."""
        return any(one.network is not None for one in self.exemptions)

    def tls(self) -> ssl.SSLContext:
        """Return a client's context that trusts this machine's authorities and those of the file."""
        context = ssl.create_default_context()
        if self.authorities:
            context.load_verify_locations(self.authorities)
        return context


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def read_proxy(text: str) -> ProxyAddress | None:
    """Read `http://[user:password@]host:port`, or https. None for an empty text; ValueError never quotes it."""
    if not text:
        return None
    parts = urlsplit(text if "://" in text else f"http://{text}")
    if parts.scheme.startswith("pac+") or parts.path.lower().endswith((".pac", ".dat", ".js")):
        raise ValueError(
            "a proxy auto-config file (PAC) is a program for browsers, which Handrail does not run: name the proxy "
            "that it returns, as in http://proxy.example:3128, and exceptions in HANDRAIL_UPSTREAM_NO_PROXY"
        )
    if parts.scheme.startswith("socks"):
        raise ValueError("a SOCKS proxy can't be used: name one of http or https")
    if parts.scheme not in PORTS or not parts.hostname or " " in text:
        raise ValueError("it begins with http:// or https://, and a host follows")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError("nothing follows its host and port")
    user = parts.netloc.rpartition("@")[0]
    if not user.isascii() or "@" in user:
        raise ValueError("in its user name and password, @ is written %40, and other letters than ASCII %XX")
    if b"\n" in _plain(user) or b"\r" in _plain(user):
        raise ValueError("its password has a line break")
    return ProxyAddress(parts.scheme, parts.hostname, _port(parts), user)


def _port(parts) -> int:
    try:
        port = PORTS[parts.scheme] if parts.port is None else parts.port
    except ValueError:  # whose message quotes it, and it may be the password of an address without a host
        port = 0
    if not port:
        raise ValueError("its port is a number from 1 to 65535")
    return port


def read_no_proxy(text: str) -> tuple[Exemption, ...]:
    """Read rules with commas or blanks between them. ValueError names one that means nothing."""
    return tuple(_exemption(word.lower()) for word in re.split(r"[,\s]+", text) if word)


def _exemption(word: str) -> Exemption:
    if word == "*":
        return Exemption()
    try:
        return Exemption(network=ipaddress.ip_network(word, strict=False))
    except ValueError:
        pass
    found = RULE.fullmatch(word)
    if not found or (found["port"] and not 0 < int(found["port"]) < 65_536):
        raise ValueError(f"{word!r} is no host, address or network")
    port, host = int(found["port"]) if found["port"] else None, found["host"].removeprefix("[").removesuffix("]")
    if _is_address(host):
        return Exemption(network=ipaddress.ip_network(host), port=port)
    name = host.removeprefix("*").removeprefix(".").removesuffix(".")
    if not NAME.fullmatch(name):
        raise ValueError(f"{word!r} is no host, address or network")
    return Exemption(name=name, port=port)


def read_authorities(text: str) -> str:
    """Return the path of a file with certificates, "" for none. ValueError says what is wrong with it."""
    if not text:
        return ""
    if not Path(text).is_absolute():
        raise ValueError("it is no absolute path")
    try:
        ssl.create_default_context(cafile=text)
    except FileNotFoundError:
        raise ValueError("there is no such file") from None
    except (OSError, ssl.SSLError):
        raise ValueError("it holds no certificates in PEM that can be read") from None
    return text


def read_named(text: str) -> dict[str, Upstream]:
    """Return {name: Upstream} of a TOML file, whose tables have `proxy`, `no_proxy` and `ca`. ValueError."""
    if not text:
        return {}
    try:
        tables = tomllib.loads(Path(text).read_text())
    except (OSError, ValueError):
        raise ValueError("it is no file of TOML that can be read") from None
    return {name: _of_table(name, table) for name, table in tables.items()}


def _of_table(name: str, table) -> Upstream:
    is_table = isinstance(table, dict) and table.keys() <= {"proxy", "no_proxy", "ca"}
    if not is_table or not NAMED.fullmatch(name) or not all(isinstance(value, str) for value in table.values()):
        raise ValueError(f"{name[:40]!r} is no table of the texts proxy, no_proxy and ca")
    try:
        rules = read_no_proxy(table.get("no_proxy", ""))
        return Upstream(read_proxy(table.get("proxy", "")), rules, read_authorities(table.get("ca", "")))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


# What is said to a proxy ---------------------------------------------------------------------------------------------


def connect_request(proxy: ProxyAddress, host: str, port: int) -> bytes:
    """Return the request that asks a proxy for a tunnel."""
    to = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    credentials = f"Proxy-Authorization: {proxy.authorization}\r\n" if proxy.user else ""
    return f"CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{credentials}\r\n".encode()


def check_answer(proxy: ProxyAddress, head: bytes):
    """Raise ProxyRefused unless the proxy's answer to CONNECT has a status of success."""
    words = head.split(b"\r\n", 1)[0].split(b" ", 2)
    status = words[1].decode("latin-1") if len(words) > 1 and words[0].startswith(b"HTTP/1.") else ""
    if status.startswith("2") and len(status) == 3:
        return
    if status == "407":
        raise ProxyRefused(f"The proxy {proxy.shown} wants other credentials (407).")
    reason = "".join(each for each in b" ".join(words[1:]).decode("latin-1")[:80] if each.isprintable())
    raise ProxyRefused(f"The proxy {proxy.shown} refused the connection: {reason or 'no answer of HTTP'}.")
