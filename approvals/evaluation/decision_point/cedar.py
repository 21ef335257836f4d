"""Ask Cedar, in this process, about the policies of one file. No Django here.

A permit lets our verdict stand; a forbid forbids, or does what its annotation @answer says: "ask" or "two_people". Its
@reason is shown. A permit with @without("hosts, places") allows calls of which these are not known. What no policy
permits, and each error, asks a person: Cedar skips a forbid that fails.
"""

from functools import lru_cache
from pathlib import Path

import cedarpy

from approvals.evaluation.decision_point.answers import ORDER, Answer, NoAnswer, allowed, answer
from dashboard import json_text

NAME = "Cedar"


def ask(path: str, document: dict) -> Answer:
    """Return the answer of the policies in the file. Raise NoAnswer."""
    try:
        policies, annotations = _loaded(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise NoAnswer(f"its policies can't be read ({_line(error)})") from None
    request, entities = as_request(document)
    found = cedarpy.is_authorized(request, policies, entities)
    if found.decision == cedarpy.Decision.NoDecision:
        raise NoAnswer(_line("; ".join(found.diagnostics.errors)))
    met = [annotations[policy] for policy in found.diagnostics.reasons]
    failed = [_line(error) for error in found.diagnostics.errors]
    if found.decision == cedarpy.Decision.Allow:
        if failed:
            raise NoAnswer(f"a policy failed ({failed[0]})")
        without = [name.strip() for each in met for name in (each.get("without") or "").split(",")]
        return allowed(NAME, document, without)
    if not met:
        raise NoAnswer(f"a policy failed ({failed[0]})" if failed else "no policy permits it")
    given = [each.get("answer") if each.get("answer") in ("ask", "two_people") else "forbid" for each in met]
    strictest = max(given, key=ORDER.index)
    reasons = [each.get("reason") or "" for each, said in zip(met, given, strict=True) if said == strictest]
    return answer(NAME, strictest, reasons)


def _line(error) -> str:
    return " ".join(str(error).split())[:200]


@lru_cache(maxsize=2)
def _loaded(text: str) -> tuple[cedarpy.PolicySet, dict]:
    """Return (the policies, {policy: its annotations}). ValueError if they don't load."""
    policies = cedarpy.PolicySet.from_str(text)
    parsed = json_text.loads(cedarpy.policies_to_json_str(text))["staticPolicies"]
    return policies, {name: policy.get("annotations", {}) for name, policy in parsed.items()}


def as_request(document: dict) -> tuple[dict, list[dict]]:
    """Return (request, entities) of Cedar for a document."""
    principal, resource = document["principal"], document["resource"]
    who, what = principal["attributes"], resource["attributes"]
    team = {"type": "Handrail::Team", "id": who["team"]}
    agent = {key: who[key] for key in ("name", "owner") if key in who}
    parents, more = [team], []
    if resource["type"] == "Handrail::Workspace":
        environment = {"type": "Handrail::Environment", "id": what["environment"]}
        parents, more = [team, environment], [_entity(environment, {}, [])]
    place = {key: value for key, value in what.items() if key != "team"}
    entities = [
        _entity(team, {}, []),
        _entity(principal, agent, [team]),
        _entity(resource, place, parents),
        *more,
    ]
    context = document["context"] | {"unknown": document["unknown"]}
    context["at"] = {"__extn": {"fn": "datetime", "arg": context["at"]}}
    if amount := context.get("amount"):
        context["amount"] = amount | {"value": {"__extn": {"fn": "decimal", "arg": amount["value"]}}}
    request = {"principal": _uid(principal), "action": _uid(document["action"]), "resource": _uid(resource)}
    return request | {"context": context}, entities


def _uid(entity: dict) -> dict:
    return {"type": entity["type"], "id": entity["id"]}


def _entity(uid: dict, attributes: dict, parents: list) -> dict:
    return {"uid": _uid(uid), "attrs": attributes, "parents": [_uid(each) for each in parents]}
