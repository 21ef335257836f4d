"""A request as the protocol's JSON, and errors in its form."""

from datetime import UTC, datetime

from approvals.actions import agent_messages
from approvals.actions.transitions import final_decision
from approvals.evaluation.judge import content
from approvals.models import Status
from approvals.models.aap import AapRequest
from approvals.protocols.aap.requests import is_edited
from dashboard import json_text
from dashboard.problems import Problem

USED = (Status.RUNNING, Status.SUCCEEDED, Status.FAILED, Status.UNCERTAIN)
KINDS = {
    400: "invalid_request",
    401: "authentication",
    403: "authorization",
    404: "not_found",
    409: "conflict",
    422: "invalid_request",
    429: "rate_limit",
    503: "dependency",
}
UNVERIFIED = "webhook_verification_failed"
# The gate's codes where the protocol has one of its own.
CODES = {"expired": "approval_expired", "digest_mismatch": "not_approved", "revoked": "not_approved"}
EDITED = (
    "A person edited this call, and a request cannot be changed, so nothing has run. "
    "Make exactly this call instead; it is approved already: {call}"
)


def as_json(request: AapRequest) -> str:
    """Return the submission, word for word, with the state of its request."""
    state = {
        "id": str(request.pk),
        "created_at": time(request.created_at),
        "deadline_at": time(request.deadline_at),
    } | _state(request)
    return f"{request.submission.rstrip().removesuffix('}')},{json_text.dumps(state)[1:]}"


def _state(request: AapRequest) -> dict:
    action = request.action
    status, note = answer_of(request)
    if status == "pending":
        return {"status": status}
    decided_at = _decided(request)
    decision = {"status": status, "decided_at": time(decided_at)} | ({"note": note} if note else {})
    if status != "approved":
        return {"status": status, "decision": decision}
    found = {"status": status, "decision": decision | {"expires_at": time(action.consume_by)}}
    if action.consumed_at:
        used = {"consumed_at": time(max(action.consumed_at, decided_at))}
        if (outcome := outcome_of(request)) is not None:
            told = {"note": outcome[1]} if outcome[1] else {}
            used["outcome"] = {"status": str(action.status), "reported_at": time(action.ended_at)} | told
        found["consumption"] = used
    return found


def resolved_at(request: AapRequest) -> str:
    """Return when a request was decided, or ended without a decision."""
    return time(_decided(request))


def _decided(request: AapRequest) -> datetime:
    return max(request.action.decided_at or request.action.ended_at, request.created_at)


def outcome_of(request: AapRequest) -> tuple[bool, str] | None:
    """Return how the agent says that the call ended: whether it succeeded, and its note; None if it has not said."""
    action = request.action
    is_told = action.consumed_at is not None and action.status in (Status.SUCCEEDED, Status.FAILED)
    return (action.status == Status.SUCCEEDED, action.result.get("note", "")) if is_told else None


def answer_of(request: AapRequest) -> tuple[str, str]:
    """Return the protocol's status and a note for the agent."""
    action = request.action
    if action.status == Status.PENDING or (action.is_carried_out and action.ended_at is None):
        return "pending", ""
    if action.is_carried_out:  # a person approved the result of a rehearsal
        return (
            "denied",
            f"{agent_messages.permission(action)} Handrail has applied the result of its rehearsal. Do not run it.",
        )
    was_approved = action.status in (Status.APPROVED, *USED) or (action.status == Status.EXPIRED and action.consume_by)
    if was_approved and is_edited(request):
        call = content(action)
        return "denied", EDITED.format(call=json_text.dumps({"tool": call["tool"], "arguments": call["arguments"]}))
    if was_approved:
        decision = final_decision(action)
        return "approved", decision.comment if decision else ""
    status = {Status.DENIED: "denied", Status.EXPIRED: "expired"}.get(action.status, "cancelled")
    return status, agent_messages.refusal(action)


def time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def status_of(problem: Problem) -> int:
    """Return the HTTP status of an error. In the protocol, 422 is only for a receiver that could not be verified."""
    is_invalid = problem.status == 422 and problem.extra.get("code") != UNVERIFIED
    return 400 if is_invalid else problem.status


def error(problem: Problem, request_id: str) -> dict:
    """Return the body of an error. A problem without a code is named by its kind."""
    kind = KINDS.get(problem.status, "invalid_request" if problem.status < 500 else "internal")
    code = kind if problem.status == 404 else problem.extra.get("code", kind)
    told = {"type": kind, "code": CODES.get(code, code), "message": problem.detail, "request_id": request_id}
    return {"error": told}
