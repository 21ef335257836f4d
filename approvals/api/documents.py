"""JSON documents of agents, over HTTP."""

from datetime import datetime
from uuid import UUID

from ninja import Router, Schema, Status
from pydantic import Field

from approvals.models import AgentDocument
from approvals.protocols import documents
from dashboard.web.api_base import PROBLEMS
from workspaces.api.schemas import Strict

router = Router(tags=["documents"])


class NewContent(Strict):
    body: dict = Field(description=f"at most {documents.MAX_BYTES:,} bytes of JSON")
    seen: str = Field("", max_length=36, description="the version that this replaces; empty: it is a new document")


class DocumentOut(Schema):
    name: str
    version: UUID = Field(description="another one after each write")
    bytes: int
    changed_at: datetime


class DocumentContent(DocumentOut):
    body: dict


class DocumentList(Schema):
    documents: list[DocumentOut]


@router.get("/documents", response={200: DocumentList} | PROBLEMS)
def list_documents(request):
    """List the documents that the token reaches, by name, without their content."""
    return Status(200, {"documents": [_out(each) for each in documents.of(request.auth).order_by("name")]})


@router.get("/documents/{name}", response={200: DocumentContent} | PROBLEMS)
def get_document(request, name: str):
    """Return a document."""
    found = documents.find(request.auth, name)
    return Status(200, _out(found) | {"body": documents.content(found)})


@router.put("/documents/{name}", response={200: DocumentOut} | PROBLEMS)
def put_document(request, name: str, wish: NewContent):
    """Replace one version of a document. 409 `document_changed` if there is another one by now."""
    return Status(200, _out(documents.put(request.auth, name, wish.body, seen=wish.seen)))


@router.delete("/documents/{name}", response={204: None} | PROBLEMS)
def delete_document(request, name: str, seen: str):
    """Delete one version of a document."""
    documents.remove(request.auth, name, seen=seen)
    return Status(204, None)


def _out(document: AgentDocument) -> dict:
    return {name: getattr(document, name) for name in ("name", "version", "bytes", "changed_at")}
