"""Save, find, compare, import and export definitions. A change is the next version; versions stay as they are."""

import json

from django.db.models import F, OuterRef, Subquery

from approvals.agent_runs.definitions import agent_spec, documents, letta, secret_values
from approvals.agent_runs.definitions import content as contents
from approvals.models import AgentDefinition
from dashboard.database import clock
from dashboard.models import Event, Team
from dashboard.people.access import Caller
from dashboard.problems import conflict, invalid, not_found

OWN = "handrail"
FORMATS = (OWN, letta.NAME, agent_spec.NAME)
MAX_VERSIONS = 500  # of one definition
MAX_DEFINITIONS = 500  # of a team


def newest(caller: Caller):
    """Return the newest version of each definition that the caller may see."""
    rows = AgentDefinition.objects.visible_to(caller)
    same = AgentDefinition.objects.filter(team=OuterRef("team"), name=OuterRef("name"))
    latest = Subquery(same.order_by("-version").values("version")[:1])
    return rows.annotate(latest=latest).filter(version=F("latest")).select_related("team", "by")


def find(caller: Caller, name: str, version: int | None = None) -> AgentDefinition:
    """Return a version, the newest by default. Problem 404."""
    rows = AgentDefinition.objects.visible_to(caller).filter(name=name).select_related("team", "by")
    rows = rows if version is None else rows.filter(version=version)
    found = rows.order_by("-version").first()
    if found is None:
        raise not_found("definition")
    return found


def save(
    team: Team, name: str, content: dict, *, caller: Caller, comment: str = "", base: int | None = None, **came
) -> AgentDefinition:
    """Save the next version, or the first; without a change the newest is returned. `came`: origin and document.

    `base`: the version that was changed; Problem 409 if it is not the newest any more.
    """
    name, found = contents.check_name(name), contents.checked(content)
    if len(comment) > 300:
        raise invalid("A comment has at most 300 characters.", field="comment")
    with Team.objects.turn(team.pk):
        rows = AgentDefinition.objects.filter(team=team)
        before = rows.filter(name=name).order_by("-version").first()
        if base is not None and (before.version if before else 0) != base:
            raise conflict(f"Version {before.version if before else 0} of {name} is the newest. Nothing was saved.")
        if before and before.content == found and came.get("document", before.document) == before.document:
            return before
        if before is None and rows.values("name").distinct().count() >= MAX_DEFINITIONS:
            raise conflict(f"A team has at most {MAX_DEFINITIONS} definitions.")
        version = before.version + 1 if before else 1
        if version > MAX_VERSIONS:
            raise conflict(f"A definition has at most {MAX_VERSIONS} versions.")
        kept = {"origin": before.origin, "document": before.document} if before else {}
        made = AgentDefinition.objects.create(
            team=team,
            name=name,
            version=version,
            content=found,
            by=caller.user,
            comment=" ".join(comment.split()),
            created_at=clock.now(),
            **(kept | came),
        )
        data = {"name": name, "version": version, "changed": _changed(before, made)}
        Event.objects.record(team, actor=caller.actor, verb="agent_definition.saved", subject=made, data=data)
    return made


def _changed(before: AgentDefinition | None, made: AgentDefinition) -> list[str]:
    return [field for field in contents.FIELDS if before is None or before.content[field] != made.content[field]]


def compare(old: AgentDefinition, new: AgentDefinition) -> list[dict]:
    """Return [{field, was, now}] of the fields that differ, as they are shown."""
    fields = [field for field in contents.FIELDS if old.content[field] != new.content[field]]
    return [{"field": field, "was": shown(old.content[field]), "now": shown(new.content[field])} for field in fields]


def shown(value) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def import_document(team: Team, text: bytes, *, caller: Caller, name: str = "", agent: str = "") -> AgentDefinition:
    """Save what a document defines: our own JSON, an agent file of Letta, or Agent Spec. Problem 422.

    The values of secrets are emptied before anything is kept. `agent`: the name or id of one of several agents.
    """
    if len(text) > contents.MAX_BYTES:
        raise invalid(f"A document has at most {contents.MAX_BYTES:,} bytes.", field="document")
    document = documents.parsed(text)
    origin = agent_spec if agent_spec.is_document(document) else letta if letta.is_document(document) else None
    if origin:
        document = secret_values.emptied(document)
        document = letta.chosen(document, agent) if origin is letta else document
        named, content = origin.read(document)
        return save(team, name or named, content, caller=caller, origin=origin.NAME, document=document)
    if document.get("format") != OWN or not isinstance(document.get("content"), dict):
        known = "a definition that Handrail exported, an agent file or Agent Spec"
        raise invalid(f"The document is not {known}.", field="document")
    return save(team, name or str(document.get("name") or ""), document["content"], caller=caller)


def export(definition: AgentDefinition, form: str) -> dict:
    """Return the definition as a document in one of FORMATS; no value of a secret is in it. Problem 422."""
    if form == OWN:
        about = {"format": OWN, "name": definition.name, "version": definition.version}
        return about | {"content": definition.content}
    for other in (letta, agent_spec):
        if form == other.NAME:
            document = definition.document if definition.origin == other.NAME else None
            return other.write(definition.name, definition.content, document)
    raise invalid(f"A definition is exported as one of: {', '.join(FORMATS)}.", field="format")
