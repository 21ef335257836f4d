"""JSON documents that agents keep in Handrail. A write names the version that it replaces, so none is lost.

An agent's token reaches the agent's documents; one that is bound to a workspace those of the agent in that workspace.
"""

import re
import uuid

from django.db import IntegrityError, transaction

from approvals.models import AgentDocument
from dashboard import json_text
from dashboard.database import clock
from dashboard.keys import keyring
from dashboard.people.access import Caller
from dashboard.problems import conflict, invalid, not_allowed, not_found
from workspaces import secrets

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
MAX_BYTES = 1 << 20  # of a document's JSON
MAX_DOCUMENTS = 100  # of an agent
_ABOUT = "agent document"  # what the encrypted value is bound to


def of(caller: Caller):
    """Return the documents that the token reaches; a person's reaches none."""
    if caller.is_person:
        return AgentDocument.objects.none()
    return AgentDocument.objects.filter(agent=caller.agent, workspace=caller.workspace_id)


def _must_be_agent(caller: Caller):
    if caller.is_person:
        raise not_allowed("Documents belong to agents: use an agent's token.")


def find(caller: Caller, name: str) -> AgentDocument:
    """Return a document. Problem 403 for a person, 404."""
    _must_be_agent(caller)
    found = of(caller).filter(name=name).first()
    if found is None:
        raise not_found("document")
    return found


def content(document: AgentDocument) -> dict:
    """Return the object. Problem 409 if the key that encrypted it is gone."""
    try:
        return json_text.loads(secrets.decrypt(bytes(document.value), _ABOUT))
    except keyring.Unreadable as error:
        raise conflict(f"{document.name} can't be read: {error}", code="unreadable") from None


def put(caller: Caller, name: str, body: dict, *, seen: str) -> AgentDocument:
    """Replace the version `seen` of a document, "" for a new one.

    Problem 403 for a person, 409 with the code `document_changed` if it has another version, 422 for a wrong name or a
    large object.
    """
    _must_be_agent(caller)
    rows = of(caller)
    if not NAME.fullmatch(name):
        raise invalid("A document's name has up to 80 letters, digits, dots, hyphens and underscores.", field="name")
    text = json_text.dumps(body, ensure_ascii=False, separators=(",", ":"))
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise invalid(f"A document has at most {MAX_BYTES:,} bytes of JSON; this one has {size:,}.", field="body")
    with keyring.steady():
        written = {"value": secrets.encrypt(text, _ABOUT), "bytes": size, "changed_at": clock.now()}
        if seen:
            return _replace(rows, name, _version(seen), written)
        return _add(caller, rows, name, written)


def _replace(rows, name: str, seen: uuid.UUID, written: dict) -> AgentDocument:
    if not rows.filter(name=name, version=seen).update(version=uuid.uuid4(), **written):
        raise _changed(name)
    return rows.get(name=name)


def _add(caller: Caller, rows, name: str, written: dict) -> AgentDocument:
    if AgentDocument.objects.filter(agent=caller.agent).count() >= MAX_DOCUMENTS:
        raise conflict(f"An agent has at most {MAX_DOCUMENTS} documents.")
    whose = {"agent": caller.agent, "workspace_id": caller.workspace_id, "name": name}
    try:
        with transaction.atomic():
            return AgentDocument.objects.create(
                **whose, **written, version=uuid.uuid4(), created_at=written["changed_at"]
            )
    except IntegrityError:
        raise _changed(name) from None


def remove(caller: Caller, name: str, *, seen: str):
    """Delete the version `seen` of a document. Problem 404, and 409 as for `put`."""
    found = find(caller, name)
    if not of(caller).filter(pk=found.pk, version=_version(seen)).delete()[0]:
        raise _changed(name)


def _version(seen: str) -> uuid.UUID:
    try:
        return uuid.UUID(seen)
    except ValueError:
        raise invalid("A version is as it was returned.", field="seen") from None


def _changed(name: str):
    return conflict(f"{name} has another version than the one that you have read.", code="document_changed")


def encrypted_column():
    """Return the queryset and associated data for the rotation of keys (workspaces.secrets)."""
    return AgentDocument.objects.all(), lambda document: _ABOUT


def searched(value: bytes) -> bytes:
    """Return the JSON of a document for a purge of a value."""
    try:
        return secrets.decrypt(bytes(value), _ABOUT).encode("utf-8", "surrogatepass")
    except keyring.Unreadable:
        return b""
