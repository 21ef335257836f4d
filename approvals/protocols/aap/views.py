"""The protocol's addresses below /aap/v1, for agents' tokens."""

import functools
import json
import logging
import re

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpResponse
from django.views.decorators.csrf import csrf_exempt

from approvals.actions import gate
from approvals.models import Status
from approvals.protocols.aap import conversation, instances, registrations, requests, updates, wire
from approvals.protocols.aap.instances import AapCaller
from dashboard.database.threads import query_in_thread
from dashboard.door.entering import let_in
from dashboard.door.walk import takes_tokens
from dashboard.live.long_poll import place_for, same_view, wait_for
from dashboard.problems import Problem, invalid, not_found, of_text
from dashboard.web.api_base import Bearer

logger = logging.getLogger("handrail.aap")
MAX_WAIT = 30  # seconds; the protocol's limit
WAIT = re.compile(r"([1-9][0-9]*)([smh])")


def answered(*methods: str):
    """Make a view that takes (request, caller, ...) and returns (status, JSON) respond in the protocol's form."""

    def decorate(view):
        @takes_tokens(*methods)
        @csrf_exempt
        @functools.wraps(view)
        async def guarded(request, **named) -> HttpResponse:
            try:
                if request.method not in methods:
                    raise Problem(405, f"This address takes {' and '.join(methods)}.")
                caller = await query_in_thread(_caller_of, request)
                status, body = await view(request, caller, **named)
            except Problem as problem:
                status, body = wire.status_of(problem), json.dumps(wire.error(problem, str(request.id)))
            except Exception as error:  # any other error: the client asks again, and nothing is approved
                if (problem := of_text(error)) is None:
                    logger.exception("unhandled in %s %s", request.method, request.path)
                    problem = Problem(500, "Something broke here; nothing is approved.")
                status, body = wire.status_of(problem), json.dumps(wire.error(problem, str(request.id)))
            return HttpResponse(body, status=status, content_type="application/json")

        return guarded

    return decorate


class Credential(Bearer):
    """A token of Handrail's, or an instance's credential."""

    def authenticate(self, request, token) -> AapCaller | None:
        if instance := instances.find_by_credential(token):
            caller = let_in(instance.token, request)
        else:
            caller = super().authenticate(request, token)
        return AapCaller(**vars(caller), instance=instance) if caller else None


def _caller_of(request) -> AapCaller:
    caller = Credential()(request)
    if caller is None:
        raise Problem(401, "The Authorization header holds no valid token: Bearer hr_…")
    return caller


def _body_of(request) -> bytes:
    try:
        body = request.body
    except RequestDataTooBig:
        body = None
    if body is None or len(body) > settings.HANDRAIL_BODY_BYTES:
        raise Problem(413, f"A body may have {settings.HANDRAIL_BODY_BYTES:,} bytes.")
    return body


def _answer(pk, caller) -> str:
    """Return the request as it is now, as JSON, and record that its agent has heard of its end."""
    found = requests.find(pk, caller)
    gate.mark_end_heard(found.action, caller)
    conversation.note_end(found, caller)
    return wire.as_json(found)


def _key_of(request) -> str:
    return request.headers.get("Idempotency-Key", "")


@answered("POST")
async def ask(request, caller):
    """Submit a request."""

    def create():
        made, is_new = requests.create(requests.parse(_body_of(request)), _key_of(request), caller)
        conversation.note_asked(made, caller)
        return 201 if is_new else 200, _answer(made.pk, caller)

    return await sync_to_async(create)()


@answered("GET", "DELETE")
async def one(request, caller, pk):
    """Return a request, with `?wait=25s` once it is decided; or cancel it."""
    if request.method == "GET":
        return await _get(request, caller, pk)

    def cancel():
        requests.cancel(requests.find(pk, caller), caller)
        return 200, _answer(pk, caller)

    return await sync_to_async(cancel)()


async def _get(request, caller, pk):
    found = await query_in_thread(requests.find, pk, caller)
    wait = _wait_of(request)
    if wait and found.action.status == Status.PENDING:
        await _decided(found.action_id, caller, wait)
    return 200, await query_in_thread(_answer, pk, caller)


def _wait_of(request) -> int:
    if unknown := request.GET.keys() - {"wait"}:
        raise invalid(f"unknown parameter: {', '.join(sorted(unknown))}")
    if "wait" not in request.GET:
        return 0
    match = WAIT.fullmatch(request.GET["wait"])
    if not match:
        raise invalid("wait must be a duration like 30s, 5m or 1h.")
    # Six digits are more than the limit in every unit.
    return min(int(match[1][:6]) * requests.UNITS[match[2]], MAX_WAIT)


async def _decided(action_id, caller, wait: int) -> None:
    """Wait until the action is decided or over."""

    def read_answers(pks):
        return {pk: gate.is_answered(action) for pk, action in gate.find_all(pks, caller=caller).items()}

    with place_for(caller):
        await wait_for(
            read_answers,
            lambda is_answered: is_answered is not False,
            team_ids=caller.team_ids,
            subject=str(action_id),
            timeout=wait,
            batch=("aap", *same_view(caller)),
            key=action_id,
        )


@answered("POST")
async def consume(request, caller, pk):
    """Use an approval, once."""
    found = await query_in_thread(requests.find, pk, caller)
    try:
        await requests.consume(found, _key_of(request), caller)
    except Problem:
        now = await query_in_thread(requests.find, pk, caller)
        if not requests.used_by(now, _key_of(request)):  # the same consume at the same time was first
            raise
    return 200, await query_in_thread(_answer, pk, caller)


@answered("POST")
async def outcome(request, caller, pk):
    """Report how the call ended."""
    await requests.report(pk, _body_of(request), caller)
    return 200, await query_in_thread(_answer, pk, caller)


@answered("POST")
async def register(request, caller):
    """Register an instance; its receiver, if it has one, is verified first."""
    wanted = await sync_to_async(lambda: registrations.parse(_body_of(request)))()
    made, is_new = await instances.register(wanted, _key_of(request), caller)
    return 201 if is_new else 200, await query_in_thread(instances.with_credential, made, caller)


@answered("GET", "PATCH", "DELETE")
async def instance(request, caller, pk):
    """Return an instance, change it, or remove it."""
    if request.method == "GET":
        found = await query_in_thread(instances.find, pk, caller)
        return 200, json.dumps(instances.as_json(found))
    if request.method == "PATCH":
        wanted = await sync_to_async(lambda: registrations.parse_change(_body_of(request)))()
        return 200, json.dumps(await updates.update(pk, wanted, _key_of(request), caller))
    await sync_to_async(instances.remove)(pk, caller)
    return 204, ""


@answered("GET", "POST", "PATCH", "PUT", "DELETE")
async def unknown_address(request, caller, rest):
    """Respond 404 in the protocol's form."""
    raise not_found("address")
