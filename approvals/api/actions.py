"""Actions over HTTP: submit, list, wait, decide, consume, report."""

from contextlib import nullcontext
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from asgiref.sync import sync_to_async
from ninja import Header, Query, Router, Schema, Status
from pydantic import Field, StringConstraints

from approvals.actions import answer as answers
from approvals.actions import (
    attention,
    compensations,
    declared_undo,
    gate,
    interrupts,
    polls,
    questions_to_agents,
    rehearsals,
    submission,
)
from approvals.actions.mcp_tools import Served
from approvals.api.action_answers import EvidenceOut, Rows, Whole, row, whole
from approvals.api.schemas import Digest, ServedTool
from approvals.api.talk import messages_for
from approvals.evaluation import calls
from approvals.evaluation.calls import Call
from approvals.evaluation.judge import current, with_all
from approvals.evidence import evidence_of
from approvals.line_comments import drafts, sending
from approvals.models import UNDO, Action, Tier
from approvals.models import Status as ActionStatus
from approvals.reports import attestation
from approvals.sessions import posting
from dashboard.database.threads import query_in_thread
from dashboard.live.long_poll import place_for, same_view, wait_for
from dashboard.problems import Problem, invalid, not_found
from dashboard.text.strict_json import canonical
from dashboard.web.api_base import PROBLEMS, AsyncBearer
from dashboard.web.lookup import PAGE_SIZE, page_of
from workspaces.api.schemas import Strict
from workspaces.lifecycle import agents_at_work

router = Router(tags=["actions"])

Text = Annotated[str, StringConstraints(max_length=200)]
Wait = Annotated[float, Query(ge=0, le=60, description="seconds to wait until it is decided")]


class Ask(Strict):
    tool: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    arguments: dict[str, Any]
    workspace: Annotated[str, StringConstraints(max_length=64)] | None = None
    cwd: Annotated[str, StringConstraints(max_length=4096)] | None = None
    mode: Literal["gate", "broker"] = "gate"
    reasoning: Annotated[str, StringConstraints(max_length=20_000)] = ""
    expires_in_s: Annotated[int, Field(ge=1, le=submission.MAX_EXPIRY_SECONDS)] | None = None
    call_id: Text = ""
    session: Text = ""
    input_schema: dict[str, Any] | None = Field(
        None, description="JSON schema of `arguments`; shapes the edit form only"
    )
    mcp: ServedTool | None = Field(None, description="with a tool named mcp__SERVER__TOOL: bound by the approval")


class Answer(Strict):
    verdict: Literal["approve", "deny", "edit"]
    digest: Digest
    arguments: dict[str, Any] | None = None
    comment: Annotated[str, StringConstraints(max_length=4000)] = ""
    do_first: bool = Field(False, description="with deny: the comment says what to do before the call is made again")
    comments: bool = Field(False, description="with deny: one's drafts on lines go along as part of the reason")
    envelope: Literal["none"] | None = Field(None, description="none: approve it to run without an envelope")
    apply: Literal["rehearsal"] | None = Field(None, description="approve the result of the rehearsal; it does not run")
    rehearsal: UUID | None = Field(None, description="with apply: the id of the rehearsal that was seen")


class SnoozeIn(Strict):
    minutes: int = Field(ge=1, le=attention.MAX_MINUTES)


class Snoozed(Schema):
    until: datetime = Field(description="five minutes before the action expires at the latest")


class PassIn(Strict):
    to: str = Field(min_length=1, max_length=150, description="user name of somebody who may approve it")


class Collect(Strict):
    digest: Digest


class Usage(Strict):
    """Tokens of the model since the agent's call before, for the measures."""

    model: Annotated[str, StringConstraints(max_length=100)] = ""
    input_tokens: int = Field(0, ge=0, le=10**12)
    output_tokens: int = Field(0, ge=0, le=10**12)


class Outcome(Strict):
    status: Literal["succeeded", "failed"]
    usage: Usage | None = None
    made: dict[str, str | int | float | bool | None] | None = Field(
        None, description="of an MCP tool whose server declares an undo: what its result says of that call's arguments"
    )
    note: Annotated[str, StringConstraints(max_length=gate.MAX_NOTE)] = ""


class EnvelopeSignature(Schema):
    keyid: str = Field(description="names the key; a hint, which proves nothing")
    sig: str = Field(description="Ed25519, base64")


class Envelope(Schema):
    """A DSSE envelope; docs/verifying.md says how it is verified."""

    payload: str = Field(
        description="an in-toto Statement v1 as JSON, in base64; its predicate: urn:handrail:decision:v1"
    )
    payloadType: str = Field(description="application/vnd.in-toto+json")
    signatures: list[EnvelopeSignature]


def _answer(action: Action, caller) -> dict:
    """Return the action as JSON. For its agent, record that it has heard of the end."""
    gate.mark_end_heard(action, caller)
    return whole(action)


def _with_hint(answer: dict, workspace, caller) -> dict:
    return answer | {"others_at_work": agents_at_work.hint_for(workspace, caller)}


def _with_messages(answer: dict, caller) -> dict:
    return answer | {"messages": messages_for(caller, answer["session"])}


def _served(told: ServedTool | None) -> Served | None:
    if told is None:
        return None
    return Served(**told.dict() | {"undo": declared_undo.check(told.undo.dict()) if told.undo else None})


@router.post("/actions", response={200: Whole, 201: Whole} | PROBLEMS)
def ask(
    request,
    body: Ask,
    idempotency_key: Annotated[str | None, Header(max_length=200, min_length=1)] = None,
):
    """Submit a call. A second request with the same Idempotency-Key returns the action as it is now."""
    caller = request.auth
    call = Call(
        tool=body.tool,
        arguments=body.arguments,
        cwd=body.cwd,
        workspace=calls.find_workspace(body.workspace, caller),
        mode=body.mode,
        session=body.session,
        call_id=body.call_id,
        reasoning=body.reasoning,
        expires_in_s=body.expires_in_s,
        schema=body.input_schema,
        served=_served(body.mcp),
        idempotency_key=idempotency_key,
        body_hash=calls.sha256(canonical(body.dict(exclude_unset=True))),
    )
    try:
        action, is_new = gate.submit(call, caller=caller)
    except Problem as problem:
        if problem.extra.get("code") == interrupts.CODE:
            interrupts.mark_heard(caller.agent, call.session, by=caller.actor)
        raise
    if is_new and action.session and action.call_id:
        posting.link(action)
    answer = _with_messages(_answer(gate.find(action.pk, caller=caller), caller), caller)
    answer = _with_hint(answer, call.workspace, caller)
    return Status(201 if is_new else 200, answer)


@router.get("/actions", response={200: Rows} | PROBLEMS)
def list_actions(
    request,
    status: ActionStatus | None = None,
    tier: Tier | None = None,
    undo: Literal[UNDO] | None = Query(None, description="how what it does can be undone"),
    workspace: Text | None = None,
    cursor: Text | None = None,
    limit: Annotated[int, Query(ge=1, le=200)] = PAGE_SIZE,
):
    """List the actions that the caller may see, newest first."""
    gate.sweep(request.auth.team_ids)
    found = Action.objects.visible_to(request.auth)
    if status:
        found = found.filter(status=status)
    if tier:
        found = found.filter(tier=tier)
    if undo:
        found = found.filter(undo=undo)
    if workspace:
        found = found.filter(workspace__key=workspace)
    page = page_of(with_all(found, bodies=False), cursor, size=limit)
    return Status(200, {"actions": [row(action) for action in page.rows], "cursor": page.cursor})


@router.get("/actions/{action_id}", response={200: Whole} | PROBLEMS, auth=AsyncBearer())
async def get_action(request, action_id: UUID, wait: Wait = 0):
    """Return the action. With `wait`, respond once it is decided (mode gate) or over (mode broker).

    An agent's wait also ends, once, when a person asks it about the call: see `question`.
    """
    caller = request.auth

    def read_answers(pks):
        found = gate.find_all(pks, caller=caller)
        return {pk: (_is_news(action, caller), _answer(action, caller), action) for pk, action in found.items()}

    with place_for(caller), nullcontext() if caller.is_person else polls.noted(action_id):
        found = await wait_for(
            read_answers,
            lambda found: found is None or found[0],
            team_ids=caller.team_ids,
            subject=str(action_id),
            timeout=wait,
            batch=("polls", *same_view(caller)),
            key=action_id,
        )
    if found is None:
        raise not_found("action")
    if not caller.is_person and questions_to_agents.is_unheard(found[2]):
        await query_in_thread(gate.mark_heard, found[2])
    answer = found[1] if caller.is_person else await query_in_thread(_with_messages, found[1], caller)
    return Status(200, answer)


def _is_news(action: Action, caller) -> bool:
    return gate.is_answered(action) or (not caller.is_person and questions_to_agents.is_unheard(action))


@router.get("/actions/{action_id}/evidence", response={200: EvidenceOut} | PROBLEMS)
def get_evidence(request, action_id: UUID):
    """Return what the action would do, as far as that can be determined; takes up to two seconds."""
    action = gate.find(action_id, caller=request.auth)
    return Status(200, evidence_of(action, current(action)).as_json() | {"digest": action.digest})


@router.get("/actions/{action_id}/attestation", response={200: Envelope} | PROBLEMS)
def get_attestation(request, action_id: UUID):
    """Return the decision as a signed in-toto statement, in an envelope of DSSE. 409 codes: undecided, log_differs."""
    return Status(200, attestation.of_action(gate.find(action_id, caller=request.auth)))


@router.post("/actions/{action_id}/rehearse", response={202: Whole} | PROBLEMS)
def rehearse(request, action_id: UUID):
    """Try a pending command on a copy of the workspace's files. 409 codes: cannot_rehearse, rehearsing."""
    caller = request.auth
    rehearsals.start(gate.find(action_id, caller=caller), caller=caller)
    return Status(202, whole(gate.find(action_id, caller=caller)))


@router.post("/actions/{action_id}/compensate", response={200: Whole, 201: Whole} | PROBLEMS)
def compensate(request, action_id: UUID):
    """Submit the call that takes back outside what this action did, as an action of its own: that one is answered.

    200 with the one that is there, unless it ended without taking anything back. 409 code: no_way_back.
    """
    caller = request.auth
    made, is_new = compensations.compensate(gate.find(action_id, caller=caller), caller=caller)
    return Status(201 if is_new else 200, whole(gate.find(made.pk, caller=caller)))


@router.post("/actions/{action_id}/decision", response={200: Whole} | PROBLEMS)
def decide(request, action_id: UUID, body: Answer):
    """Approve, deny or edit the revision with this digest. Short of the quorum the action stays `pending`.

    403 with code passkey_required: this person approves critical actions with a passkey, so only in a browser.
    409 codes for `apply`: no_rehearsal, rehearsal_changed, rehearsal_outdated, other_approval.
    """
    caller = request.auth
    action = gate.find(action_id, caller=caller)
    if body.comments:
        _deny_with_comments(action, body, caller)
        return Status(200, whole(gate.find(action_id, caller=caller)))
    answer = answers.Answer(
        body.verdict,
        body.digest,
        body.comment,
        body.arguments,
        send_back=body.do_first,
        unheld=body.envelope == "none",
        apply=body.apply == "rehearsal",
        rehearsal=body.rehearsal,
    )
    gate.decide(action, answer, caller=caller)
    return Status(200, whole(gate.find(action_id, caller=caller)))


def _deny_with_comments(action: Action, body: Answer, caller):
    if body.verdict != "deny":
        raise invalid("Only a denial can send comments on lines along.")
    found = drafts.of_card(action, caller)
    words = {"comment": body.comment, "send_back": body.do_first}
    sending.with_denial(action, drafts=found, caller=caller, digest=body.digest, **words)


@router.post("/actions/{action_id}/snooze", response={200: Snoozed} | PROBLEMS)
def snooze(request, action_id: UUID, body: SnoozeIn):
    """Hide a pending action from the caller's own list and notifications; others see it. 409 code: too_late."""
    caller = request.auth
    return Status(200, {"until": attention.snooze(gate.find(action_id, caller=caller), caller=caller, **body.dict())})


@router.delete("/actions/{action_id}/snooze", response={204: None} | PROBLEMS)
def wake(request, action_id: UUID):
    """Bring a snoozed action back into the caller's list."""
    caller = request.auth
    attention.wake(gate.find(action_id, caller=caller), caller=caller)
    return Status(204, None)


@router.post("/actions/{action_id}/pass", response={200: Whole} | PROBLEMS)
def pass_to(request, action_id: UUID, body: PassIn):
    """Ask one person by name to decide: they are notified. Others may still decide."""
    caller = request.auth
    attention.pass_to(gate.find(action_id, caller=caller), caller=caller, name=body.to)
    return Status(200, whole(gate.find(action_id, caller=caller)))


@router.post("/actions/{action_id}/consume", response={200: Whole} | PROBLEMS, auth=AsyncBearer())
async def consume(request, action_id: UUID, body: Collect):
    """Consume the approval, once; then run exactly `arguments`.

    409 codes: already_consumed, not_approved, expired, digest_mismatch, revoked, changed.
    """
    caller = request.auth
    await gate.consume(action_id, digest=body.digest, caller=caller)

    def read_answer():
        return whole(gate.find(action_id, caller=caller))

    return Status(200, await sync_to_async(read_answer)())


@router.post("/actions/{action_id}/continue", response={200: Whole} | PROBLEMS)
def go_on(request, action_id: UUID):
    """Ask whether a call whose approval was used may still be taken up again: a tool asked its user back.

    It changes nothing. 409 codes: interrupted, stopped, not_bound, brokered, not_running.
    """
    return Status(200, whole(gate.go_on(action_id, caller=request.auth)))


@router.post("/actions/{action_id}/outcome", response={200: Whole} | PROBLEMS)
def report(request, action_id: UUID, body: Outcome):
    """Report the outcome: its agent does while the action runs, a reviewer when it is uncertain."""
    caller = request.auth
    usage = body.usage and body.usage.model_dump()
    ended = gate.outcome(gate.find(action_id, caller=caller), body.status, caller=caller, note=body.note, usage=usage)
    if not caller.is_person and ended.status == ActionStatus.SUCCEEDED:
        declared_undo.complete(ended, body.made)
    return Status(200, whole(gate.find(action_id, caller=caller)))


@router.post("/actions/{action_id}/cancel", response={200: Whole} | PROBLEMS)
def cancel(request, action_id: UUID):
    """Cancel a pending action or an unused approval."""
    caller = request.auth
    gate.cancel(gate.find(action_id, caller=caller), caller=caller)
    return Status(200, whole(gate.find(action_id, caller=caller)))
