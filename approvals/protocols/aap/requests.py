"""Create, find, use and end requests. Each is decided as an action like any other."""

import re
from dataclasses import dataclass, field
from datetime import timedelta

from asgiref.sync import sync_to_async
from django.db import transaction

from approvals.actions import gate
from approvals.actions.submission import MAX_EXPIRY_SECONDS
from approvals.actions.transitions import withdraw
from approvals.evaluation import calls
from approvals.evaluation.calls import Call
from approvals.evaluation.judge import content
from approvals.models import Action, ActionEndCode, Status
from approvals.models.aap import AapInstance, AapRequest
from dashboard import json_text
from dashboard.database import clock
from dashboard.models import Team
from dashboard.problems import Problem, conflict, invalid, not_allowed, not_found
from dashboard.text import strict_json
from dashboard.text.bounded_names import bounded
from dashboard.workers.wakes import wake_feeds
from workspaces.secrets.masking import masked

MAX_CALL_ID = 200
MAX_KEY = 150  # characters; what is stored has a prefix
MAX_REASONING = 20_000  # characters, as over the API
MAX_DURATION = 20  # characters
FIELDS = {"tool": str, "server": str, "arguments": dict, "timeout": str, "agent_reasoning": str, "context": dict}
REQUIRED = ("tool", "arguments", "timeout")
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
# pattern: a duration has at most MAX_DURATION characters
PARTS = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
DURATION = re.compile(rf"(?:{PARTS.pattern})+")


@dataclass(frozen=True)
class Submission:
    """A parsed submission; `text` is the JSON as it came."""

    text: str
    tool: str
    arguments: dict
    timeout: str
    server: str = ""
    agent_reasoning: str = ""
    context: dict = field(default_factory=dict)


def parse(body: bytes) -> Submission:
    """Parse a submission. Problem 400, 422."""
    told = strict_json.loads(body)
    if not isinstance(told, dict):
        raise invalid("The body must be a JSON object.")
    for name, value in told.items():
        if name not in FIELDS:
            raise invalid(f"A request has no field {name!r}.")
        if not isinstance(value, FIELDS[name]) or (value == "" and name != "agent_reasoning"):
            raise invalid(f"{name} must be {'an object' if FIELDS[name] is dict else 'a text'}.")
    for name in REQUIRED:
        if name not in told:
            raise invalid(f"{name} is missing.")
    if len(told.get("agent_reasoning", "")) > MAX_REASONING:
        raise invalid(f"agent_reasoning can have at most {MAX_REASONING:,} characters.")
    return Submission(body.decode(), **told)


def seconds(duration: str) -> float:
    """Return the seconds in a duration like 10m, 24h or 1h30m. Problem 422."""
    if len(duration) > MAX_DURATION or not DURATION.fullmatch(duration):
        raise invalid(f"{duration!r} is no duration like 90s, 10m or 24h.")
    return sum(float(number) * UNITS[unit] for number, unit in PARTS.findall(duration))


def create(submission: Submission, key: str, caller) -> tuple[AapRequest, bool]:
    """Create the request, or find it by its key; return (request, whether it is new). The Problems of `gate.submit`."""
    if caller.is_person:
        raise not_allowed("Only agents ask for approval. This token is a person's.")
    check_key(key)
    if known := _same_key(submission, key, caller):
        return known, False
    call = _call(submission, key, caller)
    edited = _edited_into(call, caller)
    action = edited or gate.submit(call, caller=caller)[0]
    created_at = clock.now() if edited else action.created_at
    # Not later than the request's own timeout: the action that was edited into this call may expire later.
    deadline_at = min(action.expires_at, created_at + timedelta(seconds=call.expires_in_s))
    found, is_new = AapRequest.objects.get_or_create(
        agent=caller.agent,
        instance=caller.instance,
        key=key,
        defaults={
            "action": action,
            "submission": submission.text,
            "created_at": created_at,
            "deadline_at": max(deadline_at, created_at + timedelta(seconds=1)),
            "notify_at": created_at if caller.instance and caller.instance.url else None,
        },
    )
    if caller.instance and not _is_kept(found, is_new, caller):
        raise Problem(401, "This instance was removed.")
    transaction.on_commit(wake_feeds)  # the receiver of one that is decided already is told, and no event says so
    return (found, True) if is_new else (_same_key(submission, key, caller), False)


@transaction.atomic
def _is_kept(request: AapRequest, is_new: bool, caller) -> bool:
    """Return whether the instance still exists; cancel the request if it was removed meanwhile."""
    Team.objects.take_turn(caller.agent.team_id)
    # The lock waits for a removal or change in progress.
    own = AapInstance.objects.locked().filter(pk=caller.instance.pk, deleted_at=None).first()
    if own is not None:
        if is_new and bool(own.url) != bool(caller.instance.url):  # its receiver was added or removed
            AapRequest.objects.filter(pk=request.pk).update(notify_at=request.created_at if own.url else None)
        return True
    withdraw(request.action, caller.actor, "The instance that asked was removed.", code=ActionEndCode.WITHDRAWN)
    return False


def check_key(key: str):
    if not 0 < len(key) <= MAX_KEY:
        raise invalid(f"Idempotency-Key must have 1 to {MAX_KEY} characters.", code="missing_idempotency_key")


def _same_key(submission: Submission, key: str, caller) -> AapRequest | None:
    found = AapRequest.objects.filter(agent=caller.agent, instance=caller.instance, key=key).first()
    if found and not strict_json.same(json_text.loads(found.submission), json_text.loads(submission.text)):
        raise conflict("This Idempotency-Key was used with a different request.", code="idempotency_conflict")
    return found


def _call(submission: Submission, key: str, caller) -> Call:
    wait = int(seconds(submission.timeout))
    if not 1 <= wait <= MAX_EXPIRY_SECONDS:
        raise invalid(f"timeout must be from 1s to {MAX_EXPIRY_SECONDS // 86_400}d.")
    call_id = submission.context.get("call_id")
    tool = f"mcp__{submission.server}__{submission.tool}" if submission.server else submission.tool
    return Call(
        tool=tool,
        arguments=submission.arguments,
        workspace=calls.find_workspace(None, caller),
        call_id=bounded(call_id, MAX_CALL_ID) if isinstance(call_id, str) else "",
        reasoning=submission.agent_reasoning,
        expires_in_s=wait,
        idempotency_key=f"aap-instance {caller.instance.pk} {key}" if caller.instance else f"aap {key}",
        body_hash=calls.sha256(strict_json.canonical(json_text.loads(submission.text))),
    )


def _edited_into(call: Call, caller) -> Action | None:
    """Return the approved action of a request whose call a person edited into this one, not used yet."""
    open_ones = _own(caller).filter(action__status=Status.APPROVED, action__tool=call.tool)
    for request in open_ones.filter(action__workspace=call.workspace, action__revision__gt=1).order_by("created_at"):
        request.action = gate.find(request.action_id, caller=caller)
        is_open = request.action.status == Status.APPROVED and is_edited(request)
        if is_open and strict_json.same(content(request.action)["arguments"], call.arguments):
            return request.action
    return None


def is_edited(request: AapRequest) -> bool:
    """Return whether a person changed the arguments, so that the approval is for another call than was asked for."""
    return not strict_json.same(content(request.action)["arguments"], json_text.loads(request.submission)["arguments"])


def used_by(request: AapRequest, key: str) -> bool:
    """Return whether this request has used the approval, with this key of the client."""
    return request.action.consumed_at is not None and request.action.consume_key == f"{request.pk} {key}"


def _own(caller):
    """Return the caller's requests: an instance's own, or with the agent's token those of all its instances."""
    own = AapRequest.objects.filter(agent=caller.agent)
    return own.filter(instance=caller.instance) if caller.instance else own


def find(pk, caller) -> AapRequest:
    """Return the request with its action as it is now. Problem 403, 404."""
    if caller.is_person:
        raise not_allowed("A request is its agent's to see. People see it on the desk.")
    found = _own(caller).filter(pk=pk).first()
    if found is None:
        raise not_found("request")
    found.action = gate.find(found.action_id, caller=caller)
    return found


async def consume(request: AapRequest, key: str, caller) -> None:
    """Use the approval, once; again with the same key is no second use. Problem 400, 409, 503."""
    check_key(key)
    if used_by(request, key):
        return
    if is_edited(request):
        raise conflict("A person edited this call. Ask for the edited one.", code="not_approved")
    action, consume_key = request.action, f"{request.pk} {key}"
    await gate.consume(action.pk, digest=action.digest, caller=caller, consume_key=consume_key)


def cancel(request: AapRequest, caller) -> None:
    """Cancel a request that nobody has decided. Problem 409."""
    if request.action.status not in (Status.PENDING, Status.CANCELLED):
        raise conflict("This request is decided or over.", code="already_terminal")
    gate.cancel(request.action, caller=caller)


@sync_to_async
def report(pk, body: bytes, caller) -> None:
    """Record the outcome that the agent reports; the same again changes nothing. Problem 400, 409, 422."""
    told = strict_json.loads(body)
    is_text = isinstance(told, dict) and isinstance(told.get("note", ""), str)
    if not is_text or told.get("status") not in (Status.SUCCEEDED, Status.FAILED) or told.keys() - {"status", "note"}:
        raise invalid("An outcome is {status: succeeded or failed, note: an optional text}.")
    request, note = find(pk, caller), told.get("note", "")
    if not is_used(request):
        raise conflict("The approval has not been used.", code="not_consumed")
    kept = masked(note, request.action.workspace)
    if request.action.status in (Status.SUCCEEDED, Status.FAILED) and request.action.result.get("note", "") != kept:
        raise conflict("Another outcome was reported already.", code="outcome_conflict")
    gate.outcome(request.action, told["status"], caller=caller, note=note)


def is_used(request: AapRequest) -> bool:
    return request.action.consumed_at is not None and not is_edited(request)
