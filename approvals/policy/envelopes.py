"""Envelopes: what the kernel lets a call do that runs without a person, and which effects one makes harmless.

The text of a command only chooses the envelope and what asks at once: what leaves the machine, what no snapshot
restores, and what is refused by name. Whatever else the text hides, the kernel refuses.
"""

from dataclasses import dataclass, replace

from .shell_words import names
from .verdict import ALLOWING
from .web import is_loopback

# Kinds of effects that stay within the workspace, its caches and the allowed hosts, whatever they turn out to do.
HELD_KINDS = ("run", "start", "local", "unknown", "unclear")
# Programs that write caches even if they only report something.
CACHING = names(
    """
    npm pnpm yarn bun npx bunx pip pip3 uv poetry pipenv conda gem bundle composer brew cargo go gradle mvn dotnet
    rustc python python2 python3 node deno ruby perl php
    """
)
LOW_SECONDS = 600  # the longest time-out that agents offer for one command
MEDIUM_SECONDS = 8 * 3600  # a working day, as long as a grant: servers and watchers live longer than a call


@dataclass(frozen=True)
class Terms:
    """The conditions under which calls of one environment are held.

    `hosts` are those that its network list allows. `code_host`: reads there are run for the agent outside the envelope.
    """

    hosts: tuple = ()
    code_host: bool = True

    @classmethod
    def of(cls, context, trust):
        """Return the terms of a context under a policy's trust, or None if nothing can be held."""
        if context.get("held") is not True:
            return None
        hosts = context.get("hosts")
        listed = tuple(str(host).lower() for host in hosts) if isinstance(hosts, (list, tuple)) else ()
        return cls(listed, trust.code_host is not False and context.get("code_host") is not False)

    def allows(self, host):
        """Return True if `host` or `host:port` is on the list; `*.example.com` covers every name below."""
        return any(host == rule or (rule.startswith("*.") and host.endswith(rule[1:])) for rule in self.hosts)


def held(effects, terms):
    """Return the effects as they count in an envelope: medium where it holds them or they read at the code host."""
    return [_in_envelope(effect, terms) for effect in effects]


def _in_envelope(effect, terms):
    if effect.tier in ("critical", "forbidden"):
        return effect
    if effect.hosts:
        return _fetched(effect, terms)
    if effect.held == "asks":
        return replace(effect, tier="high")
    if effect.tier in ALLOWING or not _is_held(effect, terms):
        return effect
    return replace(effect, tier="medium")


def _is_held(effect, terms):
    if effect.held or (effect.at_code_host and terms.code_host):
        return True
    if effect.kind == "network":
        return bool(effect.target) and (is_loopback(effect.target) or terms.allows(effect.target))
    if effect.kind == "remote":
        return is_loopback(effect.target)
    return effect.kind in HELD_KINDS


def _fetched(effect, terms):
    """Judge what fetches packages: it runs where the list of hosts has those of the package registry."""
    missing = [host for host in effect.hosts if not terms.allows(host)]
    if not missing:
        return replace(effect, tier="medium")
    says = f"{effect.says} from {missing[0]}, which can be allowed for this once or for this environment"
    return replace(effect, tier="high", says=says)


def envelope_of(program, tier, effects, terms, *, by_rule):
    """Return the envelope of one sub-command that runs, or None if a rule lets it leave every envelope.

    A trusted place is added to it. What a person's rule names is added as well; without one a read outside the
    workspace stays refused.
    """
    is_low = tier == "low" and program not in CACHING and all(effect.tier == "low" for effect in effects)
    found = _low() if is_low else _medium()
    for effect in effects:
        if effect.place is not None and effect.place.trusted:
            _add_folder(found, effect, effect.place.trusted)
        elif by_rule and not _added(found, effect, terms):
            return None
    return found


def joined(envelopes):
    """Return one envelope that allows what any of these allows; None if there is none, or one of them is None."""
    found = list(envelopes)
    if not found or None in found:
        return None
    lists = {
        name: list(dict.fromkeys(entry for each in found for entry in each[name]))
        for name in ("read", "write", "network")
    }
    return lists | {"seconds": max(each["seconds"] for each in found)}


def _low():
    return {"read": ["workspace", "toolchains"], "write": ["scratch"], "network": [], "seconds": LOW_SECONDS}


def _medium():
    return {
        "read": ["workspace", "toolchains"],
        "write": ["scratch", "workspace", "caches"],
        "network": ["loopback", "hosts"],
        "seconds": MEDIUM_SECONDS,
    }


def _added(envelope, effect, terms):
    """Add what a rule allows beyond the envelope; return False if no envelope can hold it.

    No rule covers a change outside the workspace or at a protected path: a person approves that (`opens.py`).
    """
    place = effect.place
    if effect.kind == "read" and effect.tier == "high" and place is not None and (not place.inside or place.secret):
        folder = _before_wildcard(place.lexical)
        if place.unclear or folder == "/":
            return False
        _add(envelope, "read", folder)
        return True
    hosts = effect.hosts or ((effect.target,) if effect.kind == "network" and effect.target else ())
    if hosts and effect.held != "asks":
        for address in effect.reaches or [host if ":" in host else f"{host}:443" for host in hosts]:
            if not _is_listed(address, terms):
                _add(envelope, "network", address)
        return True
    return _in_envelope(effect, terms).tier in ALLOWING


def _is_listed(address, terms):
    """Return whether the list of hosts allows host:port; on the list, a host alone stands for its ports 80 and 443."""
    host, _, port = address.rpartition(":")
    return terms.allows(address) or (port in ("80", "443") and terms.allows(host))


def _add_folder(envelope, effect, folder):
    for name in ("read",) if effect.kind == "read" else ("read", "write"):
        _add(envelope, name, folder)


def _add(envelope, name, entry):
    if entry not in envelope[name]:
        envelope[name].append(entry)


def _before_wildcard(path):
    parts = path.split("/")
    cut = next((i for i, part in enumerate(parts) if any(sign in part for sign in "*?[")), len(parts))
    return "/".join(parts[:cut]) or "/"
