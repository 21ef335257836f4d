"""Host names and the rules that allow them."""

import re
from collections.abc import Iterable
from typing import NamedTuple

LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
DEFAULT_PORTS = (80, 443)
HANDRAIL = "handrail.internal"
MAX_RULES = 200


class BadName(ValueError):
    """The text is not a valid host name, port or rule; the message can be shown."""


def host_name(text: str) -> str:
    """Return the name in lower case without its trailing dot. Raise BadName for an address or an invalid name."""
    name = text.lower().removesuffix(".")
    if not name or len(name) > 253:
        raise BadName("A host name has 1 to 253 characters.")
    labels = name.split(".")
    # Some programs parse a name that ends in a number as an address: 127.1, 0x7f000001, 017700000001.
    if ":" in name or name.startswith("[") or NUMBER.fullmatch(labels[-1]):
        raise BadName("Use host names, not addresses.")
    if not all(LABEL.fullmatch(label) for label in labels):
        raise BadName("That is not a valid host name.")
    return name


def port_number(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 5 or not 0 < int(text) < 65536:
        raise BadName("A port is a number from 1 to 65535.")
    return int(text)


def host_and_port(text: str, default: int | None = None) -> tuple[str, int]:
    """Split `name:port`; the port may be missing if there is a `default`. Raise BadName."""
    if text.startswith("[") or text.count(":") > 1:
        raise BadName("Use host names, not addresses.")
    name, colon, port = text.partition(":")
    if not colon and default is None:
        raise BadName("The port is missing.")
    return host_name(name), port_number(port) if colon else default


def split_authority(text: str) -> tuple[str, str]:
    """Return (user information, host with its port) of a URL's authority. Raise BadName for one with two @."""
    user, _, rest = text.rpartition("@")
    if "@" in user:
        raise BadName("A user name and password before the host can't have an @; write it as %40.")
    return user, rest


class Rule(NamedTuple):
    """An allowed host: `example.org`, or `*.example.org` for its subdomains only, each with or without `:port`."""

    name: str
    below: bool
    port: int | None  # None: 80 and 443

    def allows(self, host: str, port: int) -> bool:
        if port not in (DEFAULT_PORTS if self.port is None else (self.port,)):
            return False
        return host.endswith("." + self.name) if self.below else host == self.name

    def __str__(self):
        return f"{'*.' if self.below else ''}{self.name}{'' if self.port is None else f':{self.port}'}"


def read_rule(text: str) -> Rule:
    """Parse a rule. Raise BadName with the rule in its message."""
    pattern, colon, port = text.strip().partition(":")
    try:
        below = pattern.startswith("*.")
        name = host_name(pattern[2:] if below else pattern)
        return Rule(name, below, port_number(port) if colon else None)
    except BadName as error:
        raise BadName(
            f"{text.strip()[:100]!r} cannot be allowed: {error} Write example.org, *.example.org or example.org:8443."
        ) from None


def read_rules(texts: Iterable[str]) -> tuple[Rule, ...]:
    """Parse rules and drop duplicates. Raise BadName for an invalid rule, or more than MAX_RULES."""
    rules = tuple(dict.fromkeys(read_rule(text) for text in texts))
    if len(rules) > MAX_RULES:
        raise BadName(f"At most {MAX_RULES} hosts; these are {len(rules)}.")
    return rules
