"""Deliveries of action callbacks over HTTP, for a team's admins: what became of each webhook, and sending it again."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from ninja import Router, Schema, Status
from pydantic import Field

from approvals.models import AapRequest
from approvals.protocols.aap import deliveries
from dashboard.database import clock
from dashboard.problems import not_allowed
from dashboard.web import lookup
from dashboard.web.api_base import PROBLEMS

router = Router(tags=["callbacks"])


class CallbackOut(Schema):
    request: UUID
    webhook_id: str = Field(description="of Standard Webhooks; each try has the same")
    action: UUID
    number: int
    state: Literal["sent", "waiting", "given_up"]
    tries: int = Field(description="failed ones since it was last sent")
    at: datetime | None = Field(description="when it was sent, or is tried next")


class ReceiverOut(Schema):
    instance: UUID
    name: str
    agent: str
    host: str
    failures: int = Field(description="failed tries in a row")
    problem: str = Field(description="of the last try; empty if it went well")
    callbacks: list[CallbackOut] = Field(description=f"the newest {deliveries.MAX_SHOWN}")


class ReceiversOut(Schema):
    receivers: list[ReceiverOut]


@router.get("/callbacks", response={200: ReceiversOut} | PROBLEMS)
def list_callbacks(request):
    """List the receivers of agents' instances and what became of their webhooks; for an admin."""
    _must_manage(request)
    now = clock.now()
    return {"receivers": [_receiver(each, now) for each in deliveries.instances_of(request.auth.team_ids[:1])[:500]]}


@router.post("/callbacks/{callback_request_id}/again", response={204: None} | PROBLEMS)
def send_again(request, callback_request_id: UUID):
    """Send a webhook again, now, with its id; for an admin. 409 for one that is older than the protocol allows."""
    _must_manage(request)
    rows = AapRequest.objects.filter(agent__team=request.auth.team_ids[0])
    found = lookup.find(rows.select_related("agent__team", "instance", "action"), callback_request_id, "request")
    deliveries.send_again(found, caller=request.auth)
    return Status(204, None)


def _must_manage(request):
    if not request.auth.is_person or not request.auth.can("manage_log_targets", request.auth.team_ids[0]):
        raise not_allowed("You don't have permission to do this.")


def _receiver(instance, now: datetime) -> dict:
    same = {"instance": instance.pk, "name": instance.name, "failures": instance.failures, "problem": instance.problem}
    listed = [_callback(each) for each in deliveries.of_instance(instance, now)]
    return same | {"agent": instance.agent.name, "host": deliveries.host_of(instance), "callbacks": listed}


def _callback(each: deliveries.Callback) -> dict:
    action = each.request.action
    about = {"request": each.request.pk, "webhook_id": each.id, "action": action.pk, "number": action.number}
    return about | {"state": each.state, "tries": each.tries, "at": each.at}
