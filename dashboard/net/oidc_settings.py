"""What an issuer and the rules of groups may look like in the settings; knows no Django."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from dashboard.net.addresses import is_loopback

ROLES = ("viewer", "reviewer", "lead", "admin")  # as dashboard.models.Role
RULE = re.compile(r"(?P<group>.+)=(?P<team>[-\w]+):(?P<role>[a-z]+)")


@dataclass(frozen=True)
class Rule:
    """People in the group have the role in the team with this slug."""

    group: str
    team: str
    role: str


def refused_issuer(issuer: str) -> str:
    """Return why this can't be an issuer, as a sentence; "" if it can."""
    try:
        parts = urlsplit(issuer)
        host = parts.hostname or ""
    except ValueError:
        return "An issuer is an https address."
    if not host or parts.username is not None or parts.query or parts.fragment:
        return "An issuer is an https address without a user name, a query and a fragment."
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        return "An issuer is an https address; http is taken only on this machine."
    if "/.well-known/" in parts.path:
        return "Leave out /.well-known/openid-configuration."
    return ""


def read_rules(text: str) -> tuple[Rule, ...]:
    """Read `group=team:role` pairs, separated by commas. Raise ValueError with a sentence."""
    rules = []
    for part in (part.strip() for part in text.split(",")):
        found = RULE.fullmatch(part)
        if part and (not found or found["role"] not in ROLES):
            raise ValueError(f"{part!r} must be GROUP=TEAM:ROLE, with a role of {', '.join(ROLES)}.")
        if part:
            rules.append(Rule(**found.groupdict()))
    return tuple(rules)
