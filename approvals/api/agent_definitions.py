"""Definitions of agents: versions, comparison, import and export."""

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Query, Router, Schema, Status
from pydantic import Field

from approvals.agent_runs import definitions as agent_definitions
from approvals.agent_runs.definitions import content
from approvals.agent_runs.definitions.versions import FORMATS
from approvals.models import AgentDefinition
from dashboard.problems import not_allowed
from dashboard.web.api_base import LARGE_BODIES, PROBLEMS
from dashboard.web.lookup import page_of
from workspaces.api.lookup import team_of
from workspaces.api.schemas import Strict

router = Router(tags=["agent definitions"])
# JSON can write each byte of the document as six: \u0041.
LARGE_BODIES["/api/v1/definitions/import"] = 6 * content.MAX_BYTES + 4096
Version = Annotated[int | None, Query(ge=1, description="default: the newest")]


class Content(Strict):
    description: str = Field("", max_length=2000)
    system: str = Field("", max_length=content.MAX_TEXT, description="the system prompt")
    memory: list[dict[str, Any]] = Field([], description="{label, value, description, limit, read_only}")
    tools: list[dict[str, Any]] = Field([], description="{name, description, schema, approval: allow, ask or deny}")
    model: dict[str, Any] = Field({}, description="{provider, name, settings}")
    environment: str = Field("", max_length=80)
    variables: dict[str, str] = {}
    secrets: list[str] = Field([], description="names; values are never part of a definition")


class NewDefinition(Strict):
    name: str = Field(max_length=80)
    content: Content
    comment: str = Field("", max_length=300)
    base: int | None = Field(None, ge=0, description="the version that was changed; 409 if there is a newer one")


class Document(Strict):
    name: str = Field("", max_length=80, description="in place of the document's own")
    agent: str = Field("", max_length=200, description="the name or id of one, if an agent file holds several")
    document: str = Field(max_length=content.MAX_BYTES, description="our JSON, .af, or Agent Spec as JSON or YAML")


class DefinitionOut(Schema):
    name: str
    version: int
    content: dict
    origin: str = Field(description="the format that it was imported from, if it was")
    by: str | None
    comment: str
    created_at: datetime


class DefinitionPage(Schema):
    definitions: list[DefinitionOut]
    cursor: str | None


class DefinitionVersions(Schema):
    versions: list[DefinitionOut]


class FieldChange(Schema):
    field: str
    was: str
    now: str


class DefinitionComparison(Schema):
    changes: list[FieldChange]


@router.get("/definitions", response={200: DefinitionPage} | PROBLEMS)
def list_definitions(request, cursor: str | None = None):
    """List the newest version of each definition, the newest first."""
    _must(request, "read_definitions")
    page = page_of(agent_definitions.newest(request.auth), cursor)
    return Status(200, {"definitions": [_out(each) for each in page.rows], "cursor": page.cursor})


@router.post("/definitions", response={201: DefinitionOut} | PROBLEMS)
def save_definition(request, wish: NewDefinition):
    """Save the next version of a definition, or its first. 422 names the field that is wrong."""
    _must(request, "write_definitions")
    given = wish.content.model_dump()
    how = {"caller": request.auth, "comment": wish.comment, "base": wish.base}
    return Status(201, _out(agent_definitions.save(team_of(request), wish.name, given, **how)))


@router.post("/definitions/import", response={201: DefinitionOut} | PROBLEMS)
def import_definition(request, wish: Document):
    """Save what a document defines. The values of secrets in it are emptied first; unknown fields are kept.

    422 with `code` `choose_agent` lists the `agents` of an agent file that holds several, when none of them is named.
    """
    _must(request, "write_definitions")
    text = wish.document.encode("utf-8", "surrogatepass")
    how = {"caller": request.auth, "name": wish.name, "agent": wish.agent}
    made = agent_definitions.import_document(team_of(request), text, **how)
    return Status(201, _out(made))


@router.get("/definitions/{name}", response={200: DefinitionOut} | PROBLEMS)
def get_definition(request, name: str, version: Version = None):
    """Return a version of a definition."""
    return Status(200, _out(_find(request, name, version)))


@router.get("/definitions/{name}/versions", response={200: DefinitionVersions} | PROBLEMS)
def list_definition_versions(request, name: str):
    """List all versions of a definition, the newest first."""
    found = _find(request, name, None)
    rows = AgentDefinition.objects.filter(team=found.team_id, name=found.name).select_related("by")
    return Status(200, {"versions": [_out(each) for each in rows.order_by("-version")]})


@router.get("/definitions/{name}/comparison", response={200: DefinitionComparison} | PROBLEMS)
def compare_definitions(
    request,
    name: str,
    old: Annotated[int, Query(ge=1)] = 1,
    new: Version = None,
):
    """Say which fields differ between two versions."""
    pair = _find(request, name, old), _find(request, name, new)
    return Status(200, {"changes": agent_definitions.compare(*pair)})


@router.get("/definitions/{name}/export", response={200: dict} | PROBLEMS)
def export_definition(request, name: str, format: Literal[*FORMATS] = FORMATS[0], version: Version = None):
    """Return a definition as a document, without the values of secrets."""
    return Status(200, agent_definitions.export(_find(request, name, version), format))


def _find(request, name: str, version: int | None) -> AgentDefinition:
    _must(request, "read_definitions")
    return agent_definitions.find(request.auth, name, version)


def _must(request, verb: str):
    if not any(request.auth.can(verb, team_id) for team_id in request.auth.team_ids):
        raise not_allowed("You don't have permission to do this.")


def _out(definition: AgentDefinition) -> dict:
    names = ("name", "version", "content", "origin", "comment", "created_at")
    by = definition.by.get_username() if definition.by else None
    return {name: getattr(definition, name) for name in names} | {"by": by}
