"""Register, find and remove instances of an agent, and authenticate their credentials.

An agent's token is the protocol's provisioner token. An instance's credential is valid for requests only, and
as long as the token that registered the instance.
"""

import json
import uuid
from dataclasses import dataclass
from functools import partial

from asgiref.sync import sync_to_async
from django.db import transaction
from django.db.models import Q

from approvals.actions.transitions import withdraw
from approvals.models import AapInstance, ActionEndCode, Status
from approvals.protocols.aap import attempts, wire
from approvals.protocols.aap.registrations import Delivery, Registration, associated_data
from approvals.protocols.aap.requests import check_key
from dashboard.database import clock
from dashboard.keys import keyring
from dashboard.models import Agent, Event, Team
from dashboard.people.access import Caller
from dashboard.people.tokens import derived, live_token, sha256
from dashboard.problems import conflict, not_allowed, not_found

MAX_INSTANCES = 50  # of one agent
REMOVED = "The instance that asked was removed."


@dataclass(frozen=True)
class AapCaller(Caller):
    """The caller of an AAP address: an agent with its token, or with the credential of one of its instances."""

    instance: AapInstance | None = None


def find_by_credential(plain: str) -> AapInstance | None:
    """Return the live instance with this credential, with its token."""
    found = AapInstance.objects.live(clock.now()).filter(credential_sha256=sha256(plain)).first()
    if found is None:
        return None
    token = live_token(found.token_id)
    if token is None:  # revoked between the two queries
        return None
    found.token = token
    return found


# Register ------------------------------------------------------------------------------------------------------------


async def register(wanted: Registration, key: str, caller: AapCaller) -> tuple[AapInstance, bool]:
    """Register an instance after its receiver was verified, or find it by its key; return (instance, is it new).

    Problem 400, 403, 409, 422, 429.
    """
    check_key(key)
    instance, is_ours = await attempts.start_or_join(partial(_begin, wanted, key, caller), caller)
    if is_ours:
        if wanted.delivery:
            await attempts.verify(instance, instance, wanted.delivery)
        await sync_to_async(_finish)(instance, wanted.delivery, caller)
    return instance, is_ours


@transaction.atomic
def _begin(wanted: Registration, key: str, caller: AapCaller) -> tuple[AapInstance, bool]:
    """Return (instance with this key, False), or (a new row without `ready_at`, True)."""
    must_manage_instances(caller)
    Agent.objects.locked().get(pk=caller.agent.pk)  # one at a time, so that the limits hold
    now = clock.now()
    own = AapInstance.objects.filter(agent=caller.agent)
    found = own.filter(token=caller.token, key=key).first()
    if attempts.is_replay(found, wanted.sha256):
        if found.deleted_at:
            raise conflict("This instance was removed.", code="instance_deleted")
        return found, False
    own.filter(ready_at=None, tried_at__lt=now - attempts.KEEP_FAILED).exclude(pk=found and found.pk).delete()
    attempts.check_limit(caller.agent, now)
    if own.live(now).count() >= MAX_INSTANCES:
        raise conflict(f"An agent has at most {MAX_INSTANCES} instances. Remove one.", code="too_many_instances")
    if found is None:
        pk = uuid.uuid4()
        found = AapInstance(pk=pk, agent=caller.agent, token=caller.token, key=key, created_at=now)
        found.credential_sha256 = sha256(derived(f"aap-instance:{pk}"))
    found.name = wanted.name or f"{caller.agent.name}-{str(found.pk)[:8]}"[:120]
    attempts.renew(found, wanted.sha256, now)
    found.save()
    return found, True


def _finish(instance: AapInstance, delivery: Delivery | None, caller: AapCaller) -> None:
    """Activate the instance. Problem 409 if its token was revoked or a newer attempt has begun."""
    fields = {"ready_at": clock.now(), "created_at": clock.now()}
    with keyring.steady() as ring, transaction.atomic():
        Team.objects.take_turn(caller.agent.team_id)
        if delivery:
            value = ring.encrypt(delivery.secret.encode(), associated_data(instance))
            fields |= {"url": delivery.url, "registration_id": delivery.registration_id, "value": value}
        mine = AapInstance.objects.filter(pk=instance.pk, ready_at=None, tried_at=instance.tried_at)
        if live_token(instance.token_id) is None or not mine.update(**fields):
            raise attempts.overtaken_problem()
        instance.refresh_from_db()
        record(instance, "aap.instance_added", caller)


def must_manage_instances(caller: AapCaller) -> None:
    """Raise Problem 403 unless the caller may register, see and remove instances."""
    if caller.is_person:
        raise not_allowed("Only agents have instances. This token is a person's.")
    if caller.instance:
        raise not_allowed("An instance's credential is valid for requests only. Use its agent's token.")
    if not all(caller.can("register_instance", team) for team in caller.team_ids):
        raise not_allowed("A token of a workspace, or of an archived team, can't register instances.")


def record(instance: AapInstance, verb: str, caller: AapCaller):
    agent = caller.agent
    url = instance.url.partition("?")[0]  # the query may contain a password of the receiver
    data = {"instance": str(instance.pk), "name": instance.name, "url": url}
    Event.objects.record(agent.team_id, actor=caller.actor, verb=verb, subject=agent, data=data)


# Find and remove -----------------------------------------------------------------------------------------------------


def find(pk, caller: AapCaller) -> AapInstance:
    """Return an instance of this agent. Problem 403, 404."""
    return _find(pk, caller, Q(deleted_at=None))


def _find(pk, caller: AapCaller, which: Q) -> AapInstance:
    must_manage_instances(caller)
    found = AapInstance.objects.filter(which, pk=pk, agent=caller.agent, ready_at__isnull=False).first()
    if found is None:
        raise not_found("instance")
    return found


@transaction.atomic
def remove(pk, caller: AapCaller) -> None:
    """Remove an instance and cancel its pending requests, without webhooks. Idempotent. Problem 403, 404."""
    Team.objects.take_turn(caller.agent.team_id)
    found = _find(pk, caller, Q())
    gone = {"deleted_at": clock.now(), "value": None, "next_try_at": None}
    if not AapInstance.objects.filter(pk=found.pk, deleted_at=None).update(**gone):
        return
    found.requests.update(notify_at=None)
    # A request that is created at the same time checks for the instance again (requests.create).
    for request in found.requests.filter(action__status=Status.PENDING).select_related("action__agent"):
        when = Q(status=Status.PENDING)
        withdraw(request.action, caller.actor, REMOVED, code=ActionEndCode.WITHDRAWN, when=when)
    record(found, "aap.instance_removed", caller)


# As the protocol's JSON ----------------------------------------------------------------------------------------------


def as_json(instance: AapInstance) -> dict:
    """Return the instance without its credential and its secret."""
    shown = {"id": str(instance.pk), "name": instance.name}
    if instance.url:
        own = {"url": instance.url, "registration_id": instance.registration_id}
        shown["delivery"] = {"type": "webhook"} | own
    return shown


def with_credential(instance: AapInstance, caller: AapCaller) -> str:
    """Return the response to a registration. Problem 409 if the credential can no longer be derived."""
    plain = derived(f"aap-instance:{instance.pk}")
    if sha256(plain) != instance.credential_sha256:
        raise conflict(
            "The credential can no longer be derived, since secret_key has changed. Remove the instance.",
            code="credential_lost",
        )
    ends = {"expires_at": wire.time(caller.token.expires_at)} if caller.token.expires_at else {}
    credential = {"token": plain} | ends
    return json.dumps({"instance": as_json(instance), "credential": credential})
