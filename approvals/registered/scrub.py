"""Rules for a purge of a value in the rows of this app (see workspaces.services.scrub.rules)."""

import html
import re
import zlib

from django.db.models import Q
from django.urls import reverse

from approvals.models import Status
from approvals.models.bodies import unpack
from approvals.protocols import documents
from workspaces.services.scrub.rules import Rule

LIVE = [Status.PENDING, Status.APPROVED, Status.RUNNING]
NOT_OVER = "the action is not over: deny or cancel it first"
_TAG = re.compile(rb"<[^<>]*>")


def _evidence(body: bytes) -> bytes:
    """Return the text of packed evidence: as JSON, and without the markup that may stand inside of a value."""
    try:
        text = zlib.decompress(body)
    except zlib.error:
        return body
    plain = html.unescape(_TAG.sub(b"", text).decode("utf-8", "replace")).encode("utf-8", "replace")
    return text + b"\n" + plain


def _card(action) -> str:
    return reverse("action", args=(action.pk,))


def _titled(action) -> str:
    return f"A-{action.number} {action.title}"


def _conversation(session) -> str:
    return reverse("conversation", args=(session.pk,))


RULES = {
    "approvals.action": Rule(busy=Q(status__in=LIVE), why_busy=NOT_OVER, name=_titled, url=_card),
    "approvals.aapinstance": Rule(
        bound={
            "url": "webhooks are sent to it: remove the instance",
            "key": "the client's own key",
            "registration_id": "the receiver's own id",
            "submission_sha256": "it is a digest",
            "credential_sha256": "it is a digest",
        }
    ),
    "approvals.aapinstanceupdate": Rule(bound={"key": "the client's own key", "submission_sha256": "it is a digest"}),
    "approvals.aaprequest": Rule(
        bound={"key": "the client's own key"},
        busy=Q(action__status__in=LIVE),
        why_busy=NOT_OVER,
        name=lambda row: _titled(row.action),
        url=lambda row: _card(row.action),
    ),
    "approvals.actionmessage": Rule(name=lambda row: _titled(row.action), url=lambda row: _card(row.action)),
    "approvals.approvergroup": Rule(bound={"name": "policies name it: rename it there and make another"}),
    "approvals.boundfile": Rule(
        bound={"path": "the digest of the call covers it", "sha256": "it is a digest"}, cleared=frozenset({"content"})
    ),
    "approvals.decision": Rule(
        bound={"assertion": "a passkey signed it"},
        name=lambda row: _titled(row.action),
        url=lambda row: _card(row.action),
    ),
    "approvals.decisionevidence": Rule(
        read={"body": _evidence},
        deletes=True,
        name=lambda row: _titled(row.decision.action),
        url=lambda row: _card(row.decision.action),
    ),
    "approvals.grant": Rule(busy=Q(revoked_at=None), why_busy="the grant was not revoked: revoke it first"),
    "approvals.logtarget": Rule(bound={"address": "it is where the log is sent: remove the target"}),
    "approvals.passkeychallenge": Rule(bound={"*": "a passkey signed it"}),
    "approvals.agentsession": Rule(bound={"native_id": "it is the session's id"}, url=lambda row: _conversation(row)),
    "approvals.agentdefinition": Rule(
        name=str, url=lambda row: reverse("agent-definition", args=(row.name,)) + f"?version={row.version}"
    ),
    "approvals.agentrun": Rule(
        bound={"native_id": "it is the session's id", "token_sha256": "it is a digest"},
        name=lambda row: row.task,
        url=lambda row: reverse("agent-run", args=(row.pk,)),
    ),
    "approvals.agentturn": Rule(
        name=lambda row: row.run.task, url=lambda row: reverse("agent-run", args=(row.run_id,))
    ),
    "approvals.modelcall": Rule(bound={"model": "it is a model's name"}, name=lambda row: row.run.task),
    "approvals.agentdocument": Rule(read={"value": documents.searched}, deletes=True),
    "approvals.follow": Rule(bound={"path": "it is where the transcript is read on"}),
    "approvals.folderwatch": Rule(deletes=True),
    "approvals.message": Rule(
        bound={"native_id": "the transcript names it so", "sha256": "it is a digest"},
        name=lambda row: str(row.session),
        url=lambda row: _conversation(row.session),
    ),
    "approvals.messagebody": Rule(
        read={"body": unpack},
        deletes=True,
        name=lambda row: str(row.message.session),
        url=lambda row: _conversation(row.message.session),
    ),
    "approvals.policy": Rule(bound={"text": "its digest names this version of the policy: save one without it"}),
    "approvals.policyfile": Rule(
        bound={"text": "its digest names what a lead adopts: change the file", "repository": "it is a name"},
        url=lambda row: reverse("policy-file", args=(row.pk,)),
    ),
    "approvals.revision": Rule(
        bound={"canonical": "decisions are bound to its digest, and passkeys sign that"},
        busy=Q(action__status__in=LIVE),
        why_busy=NOT_OVER,
        name=lambda row: f"A-{row.action.number} revision {row.number}",
        url=lambda row: _card(row.action),
    ),
    "approvals.task": Rule(
        bound={"repository": "it is where its workspaces come from", "commit": "it is a digest"},
        name=str,
        url=lambda row: reverse("task", args=(row.pk,)),
    ),
    "approvals.toolschema": Rule(deletes=True),
    "approvals.wayback": Rule(name=lambda row: _titled(row.action), url=lambda row: _card(row.action)),
}
