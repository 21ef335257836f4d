"""What a decision point is told about a call: docs/schemas/action.schema.json. No Django here.

No argument of the call and no value of a secret is sent. What cannot be known before the call runs is left out and
named in `unknown`, so that no rule takes it for something that is not there.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal

VERSION = 1
NAMESPACE = "Handrail"
KINDS = ("read", "write", "delete", "run", "start", "network", "push", "remote", "install", "mcp", "operation")
OTHER = "run"  # the action of a call whose kind is none of these
MAX_ENTRIES = 200  # of one list; a call with more is told as unknown there
TIERS = ("low", "medium", "high", "critical", "forbidden")
PLACES = {"hosts": "host", "branches": "branch"}  # lists of one kind of place
LISTS = ("effects", "programs", "names", "places", *PLACES, "targets", "possible_targets")


@dataclass(frozen=True)
class Around:
    """Who asks, and where; None for what a call outside any workspace does not have, or an agent without an owner."""

    team: str
    agent: str
    owner: str | None
    tool: str
    at: datetime
    held: bool
    workspace: str | None = None
    environment: str | None = None
    driver: str | None = None
    labels: dict = field(default_factory=dict)


def of(found, parts: list[dict], around: Around, clean: Callable[[str], str]) -> dict:
    """Return the document about a call.

    `found` is the verdict, `parts` are its commands with `reach`; `clean` masks secrets in a text.
    """
    lists = _lists(parts) if parts or not _is_unread(found, around) else dict.fromkeys(LISTS)
    amount, is_certain = _amount(parts)
    unknown = [name for name in LISTS if lists[name] is None or len(lists[name]) > MAX_ENTRIES]
    context = {name: sorted({clean(text) for text in lists[name]}) for name in LISTS if name not in unknown}
    context |= {"tool": clean(around.tool), "tier": str(found.tier), "undo": found.undo, "held": around.held}
    context |= {"rule": clean(found.rule)} if found.rule else {}
    context["at"] = around.at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if amount and is_certain:
        context["amount"] = amount
    return {
        "version": VERSION,
        "principal": _entity("Agent", f"{around.team}/{around.agent}", _principal(around)),
        "action": _entity("Action", _kind(parts, around)),
        "resource": _resource(around, clean),
        "context": context,
        "unknown": sorted(unknown) if is_certain else sorted([*unknown, "amount"]),
    }


def _entity(kind: str, name: str, attributes: dict | None = None) -> dict:
    named = {"type": f"{NAMESPACE}::{kind}", "id": name}
    return named if attributes is None else named | {"attributes": attributes}


def _principal(around: Around) -> dict:
    owner = {} if around.owner is None else {"owner": around.owner}
    return {"name": around.agent, "team": around.team} | owner


def _resource(around: Around, clean) -> dict:
    if around.workspace is None:
        return _entity("Outside", around.team, {"team": around.team})
    known = {"team": around.team, "environment": around.environment, "driver": around.driver}
    labels = sorted(clean(f"{key}:{value}") for key, value in around.labels.items())
    return _entity("Workspace", around.workspace, known | {"labels": labels})


def _is_unread(found, around: Around) -> bool:
    """Return whether the engine could not read a command: what it does is not known."""
    return around.tool == "Bash" and found.tier != "low"


def _kind(parts: list[dict], around: Around) -> str:
    if around.tool.startswith("Handrail."):
        return "operation"
    worst = max(parts, key=lambda part: TIERS.index(part.get("tier", "high")), default={})
    return worst["what"] if worst.get("what") in KINDS else OTHER


def _lists(parts: list[dict]) -> dict:
    """Return {name: texts} of LISTS; None for one that is not known as a whole."""
    reaches = [part["reach"] for part in parts if part.get("reach")]
    places = [place for reach in reaches for place in reach["places"]]
    is_open = any(reach["is_open"] for reach in reaches)
    is_network = [part for part in parts if part.get("what") in ("network", "remote")]
    at_targets = [part.get("acts_at", {}) for part in parts]
    words = [part["words"][0] for part in parts if part.get("words")]
    whole = not is_open and all(value is not None for _, value in places)
    effects = [kind for reach in reaches for kind in reach.get("effects", [])]
    told = {"effects": [*effects, *(part["what"] for part in parts)]}
    told["programs"] = [word.rpartition("/")[2] for word in words]
    told["names"] = [name for part in parts for name in part["targets"]]
    told["places"] = [f"{kind}:{value}" for kind, value in places] if whole else None
    for name, kind in PLACES.items():
        of_kind = [value for each, value in places if each == kind]
        told[name] = None if is_open or None in of_kind else of_kind
    if told["hosts"] is not None:
        told["hosts"] += [name.partition("/")[0] for part in is_network for name in part["names"]]
        opened = [host for part in parts for host in part.get("opens", {}).get("network", [])]
        told["hosts"] += [host.rpartition(":")[0] or host for host in opened]
    told["targets"] = [name for acts in at_targets for name, how in acts.items() if how == "certain"]
    told["possible_targets"] = [name for acts in at_targets for name, how in acts.items() if how != "certain"]
    return told


def _amount(parts: list[dict]) -> tuple[dict | None, bool]:
    """Return (the money that the call names, whether it is certain); it is also certain that there is none."""
    amounts = [tuple(each) for part in parts for each in part.get("reach", {}).get("amounts", [])]
    if not amounts:
        return None, True
    value, currency = amounts[0]
    if len(set(amounts)) > 1 or value is None or not _fits(Decimal(value)):
        return None, False
    return {"value": f"{Decimal(value):.4f}"} | ({"currency": currency} if currency else {}), True


def _fits(value: Decimal) -> bool:
    """Return whether a decimal of Cedar holds the value: four digits after the point, 15 before it."""
    return abs(value) < 10**14 and value == round(value, 4)
