"""Deliveries of webhooks to agents' instances: list them for the admins of a team, and send one again."""

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from django.db import transaction

from approvals.models import AapInstance, AapRequest
from approvals.models.aap import RESOLVED, RETRY_FOR
from approvals.protocols.aap import webhooks
from dashboard.database import clock
from dashboard.models import Event, Team
from dashboard.problems import conflict, not_allowed

SENT, WAITING, GIVEN_UP = "sent", "waiting", "given_up"
MAX_SHOWN = 20  # deliveries of an instance


@dataclass(frozen=True)
class Callback:
    """One webhook: the event of a resolved request. `id` is its webhook-id, which each try has."""

    request: AapRequest
    id: str
    state: str
    at: datetime | None  # when it was sent, or is tried next

    @property
    def tries(self) -> int:
        """Return the number of failures since the last delivery."""
        return self.request.tries


def instances_of(team_ids):
    """Return the instances of these teams' agents that have a receiver, by agent and name."""
    found = AapInstance.objects.filter(agent__team__in=team_ids, deleted_at=None, ready_at__isnull=False)
    return found.exclude(url="").select_related("agent__team", "agent__owner").order_by("agent__name", "name")


def host_of(instance: AapInstance) -> str:
    return urlsplit(instance.url).hostname or ""


def of_instance(instance: AapInstance, now: datetime) -> list[Callback]:
    """Return its newest webhooks that were due, the newest first."""
    resolved = AapRequest.objects.filter(RESOLVED, instance=instance).select_related("action")
    return [_callback(instance, request, now) for request in resolved.order_by("-created_at")[:MAX_SHOWN]]


def _callback(instance: AapInstance, request: AapRequest, now: datetime) -> Callback:
    about = {"request": request, "id": webhooks.resolved_event(instance, request)["id"]}
    if request.notify_at and _is_recent(request, now):
        return Callback(**about, state=WAITING, at=max(request.notify_at, instance.next_try_at or request.notify_at))
    if request.sent_at:
        return Callback(**about, state=SENT, at=request.sent_at)
    return Callback(**about, state=GIVEN_UP, at=None)


def _is_recent(request: AapRequest, now: datetime) -> bool:
    """Return whether it is still tried: for RETRY_FOR after the decision or the end."""
    times = (request.created_at, request.action.decided_at, request.action.ended_at)
    return max(filter(None, times)) > now - RETRY_FOR


@transaction.atomic
def send_again(request: AapRequest, *, caller):
    """Send the webhook once more, now, with the id that it has. Problem 403, 409."""
    team = request.agent.team
    if not caller.is_person or not caller.can("manage_log_targets", team):
        raise not_allowed("Only an admin can send a webhook again.")
    now = clock.now()
    Team.objects.take_turn(team.pk)
    instance = request.instance
    if instance is None or instance.deleted_at or not instance.url:
        raise conflict("This instance has no receiver any more.")
    if not AapRequest.objects.filter(RESOLVED, pk=request.pk).exists():
        raise conflict("The request is not resolved yet.")
    if not _is_recent(request, now):
        raise conflict(f"It is older than {RETRY_FOR.days} days: the protocol lets nothing be sent for it.")
    AapRequest.objects.filter(pk=request.pk).update(notify_at=now, tries=0)
    AapInstance.objects.filter(pk=instance.pk).update(next_try_at=None)
    data = {"instance": instance.name, "request": str(request.pk)}
    Event.objects.record(team, actor=caller.actor, verb="callback.sent_again", subject=request.action, data=data)
