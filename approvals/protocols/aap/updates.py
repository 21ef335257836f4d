"""Change the name or the receiver of an instance. A new receiver also gets the webhooks that were not sent yet."""

from datetime import datetime, timedelta
from functools import partial

from asgiref.sync import sync_to_async
from django.db import transaction

from approvals.models import AapInstance, AapInstanceUpdate
from approvals.protocols.aap import attempts, instances, webhooks
from approvals.protocols.aap.instances import AapCaller
from approvals.protocols.aap.registrations import Change, Delivery, associated_data
from approvals.protocols.aap.requests import check_key
from dashboard.database import clock
from dashboard.keys import keyring
from dashboard.models import Agent, Team
from dashboard.people.tokens import live_token
from dashboard.problems import not_found

IN_FLIGHT = timedelta(seconds=webhooks.TIMEOUT + 5)  # an attempt to send to the old receiver has ended by then


async def update(pk, wanted: Change, key: str, caller: AapCaller) -> dict:
    """Change an instance after its new receiver was verified; return it as JSON. A replay of the key changes nothing.

    If the verification fails, nothing is changed. Problem 400, 403, 404, 409, 422, 429.
    """
    check_key(key)
    change, is_ours = await attempts.start_or_join(partial(_begin, pk, wanted, key, caller), caller)
    if is_ours:
        if wanted.delivery:
            await attempts.verify(change, change.instance, wanted.delivery)
        await sync_to_async(_finish)(change, wanted, caller)
    return change.answer


@transaction.atomic
def _begin(pk, wanted: Change, key: str, caller: AapCaller) -> tuple[AapInstanceUpdate, bool]:
    """Return (change with this key, False), or (a new row, True)."""
    instance = instances.find(pk, caller)
    Agent.objects.locked().get(pk=caller.agent.pk)  # one at a time, so that the limit holds
    now = clock.now()
    found = instance.updates.filter(token=caller.token, key=key).first()
    if attempts.is_replay(found, wanted.sha256):
        return found, False
    _forget(AapInstanceUpdate.objects.filter(instance__agent=caller.agent).exclude(pk=found and found.pk), now)
    attempts.check_limit(caller.agent, now)
    found = found or AapInstanceUpdate(instance=instance, token=caller.token, key=key)
    found.instance = instance
    attempts.renew(found, wanted.sha256, now)
    found.save()
    return found, True


def _forget(others, now: datetime) -> None:
    others.filter(ready_at__lt=now - attempts.KEEP_SUCCEEDED).delete()
    others.filter(ready_at=None, tried_at__lt=now - attempts.KEEP_FAILED).delete()


def _finish(change: AapInstanceUpdate, wanted: Change, caller: AapCaller) -> None:
    """Apply the change. Problem 404 if the instance is gone, 409 if its token was revoked or a newer attempt began."""
    now = clock.now()
    with keyring.steady() as ring, transaction.atomic():
        Team.objects.take_turn(caller.agent.team_id)
        # The lock excludes a removal, and new requests of the instance (requests.create).
        instance = AapInstance.objects.locked().filter(pk=change.instance_id, deleted_at=None).first()
        if instance is None:
            raise not_found("instance")
        if wanted.name:
            instance.name = wanted.name
        if wanted.delivery:
            value = ring.encrypt(wanted.delivery.secret.encode(), associated_data(instance))
            _replace(instance, wanted.delivery, value, now)
        elif wanted.removes:
            _remove(instance)
        changed = ("name", "url", "registration_id", "value", "next_try_at", "failures", "problem")
        instance.save(update_fields=changed)
        change.answer = instances.as_json(instance)
        mine = AapInstanceUpdate.objects.filter(pk=change.pk, ready_at=None, tried_at=change.tried_at)
        if live_token(change.token_id) is None or not mine.update(ready_at=now, answer=change.answer):
            raise attempts.overtaken_problem()
        instances.record(instance, "aap.instance_changed", caller)


def _replace(instance: AapInstance, delivery: Delivery, value: bytes, now: datetime) -> None:
    instance.url, instance.registration_id, instance.value = delivery.url, delivery.registration_id, value
    instance.failures, instance.problem = 0, ""
    # Soon, since the new receiver has just responded, and after an attempt that is under way.
    if instance.next_try_at:
        instance.next_try_at = min(instance.next_try_at, now + IN_FLIGHT)
    # Without the delays that the failures of the old receiver had caused.
    instance.requests.filter(notify_at__gt=now).update(notify_at=now, tries=0)
    instance.requests.unresolved().filter(notify_at=None).update(notify_at=now)


def _remove(instance: AapInstance) -> None:
    instance.url, instance.registration_id, instance.value = "", "", None
    instance.failures, instance.problem, instance.next_try_at = 0, "", None
    instance.requests.update(notify_at=None)
