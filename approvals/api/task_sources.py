"""Repositories at code hosts that give tasks, and whose the accounts there are, over HTTP."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from django.conf import settings
from ninja import Router, Schema, Status
from pydantic import Field

from approvals.agent_runs.code_host import accounts, repositories
from approvals.api.tasks import NewAttempt
from approvals.models import HostAccount, HostedRepository, HostKind
from approvals.models.code_hosts import MAX_ADDRESS, MAX_LOGIN, MAX_WORD
from approvals.models.tasks import MAX_ATTEMPTS
from dashboard.models import Team
from dashboard.problems import not_allowed
from dashboard.web import lookup
from dashboard.web.api_base import PROBLEMS
from workspaces.api.schemas import Strict
from workspaces.services import schedules

router = Router(tags=["tasks"])


class NewSource(Strict):
    address: str = Field(max_length=MAX_ADDRESS, description="of the repository, as in https://github.com/owner/name")
    kind: str = Field(max_length=10, description=", ".join(HostKind.values))
    environment: str = Field("default", max_length=80)
    label: str = Field("", max_length=MAX_WORD, description="of issues that become tasks; empty: none does")
    mention: str = Field("@handrail", max_length=MAX_WORD, description="what a line to Handrail begins with")
    attempts: list[NewAttempt] = Field(default_factory=lambda: [NewAttempt()], min_length=1, max_length=MAX_ATTEMPTS)
    minutes: int | None = Field(None, ge=1, le=schedules.MAX_MINUTES, description="of work of each agent")


class SourceOut(Schema):
    id: UUID
    address: str
    kind: str
    environment: str
    label: str
    mention: str
    attempts: list[dict]
    minutes: int | None
    webhook: str | None = Field(description="the address to enter at the host; for those who may change it")
    secret: str | None = Field(description="of the webhook; for those who may change it")
    delivered_at: datetime | None = Field(description="when the last webhook came")
    refused: int = Field(description="webhooks with a wrong signature")
    problem: str = Field(description="why the repository could not be read the last time")


class SourcesOut(Schema):
    sources: list[SourceOut]


class NewAccount(Strict):
    person: str = Field(max_length=150, description="a user name")
    host: str = Field(max_length=MAX_ADDRESS, description="as in https://github.com")
    login: Annotated[str, Field(max_length=MAX_LOGIN)]


class AccountOut(Schema):
    id: UUID
    person: str
    host: str
    login: str
    is_seen: bool = Field(description="whether the host's own id of the account is known")


class AccountsOut(Schema):
    accounts: list[AccountOut]


@router.get("/task-sources", response={200: SourcesOut} | PROBLEMS)
def list_task_sources(request):
    """List the repositories that give tasks. For people."""
    return {"sources": [_source(request, row) for row in repositories.of_team(_team(request))]}


@router.post("/task-sources", response={200: SourceOut} | PROBLEMS)
def save_task_source(request, wish: NewSource):
    """Let a repository give tasks, or change how; for leads and admins. 422 names the field that is wrong."""
    row = repositories.save(_team(request), wish.model_dump(), caller=request.auth)
    return _source(request, row)


@router.post("/task-sources/{task_source_id}/renew-secret", response={200: SourceOut} | PROBLEMS)
def renew_webhook_secret(request, task_source_id: UUID):
    """Put another webhook secret in force; webhooks with the one from before are refused."""
    row = _find(request, HostedRepository, task_source_id, "repository", repositories.require)
    repositories.renew_secret(row, caller=request.auth)
    return _source(request, row)


@router.delete("/task-sources/{task_source_id}", response={204: None} | PROBLEMS)
def remove_task_source(request, task_source_id: UUID):
    """Let a repository give no more tasks; those that it gave go on."""
    row = _find(request, HostedRepository, task_source_id, "repository", repositories.require)
    repositories.remove(row, caller=request.auth)
    return Status(204, None)


@router.get("/host-accounts", response={200: AccountsOut} | PROBLEMS)
def list_host_accounts(request):
    """List whose the accounts at code hosts are. For people."""
    return {"accounts": [_account(row) for row in accounts.of_team(_team(request))]}


@router.post("/host-accounts", response={201: AccountOut} | PROBLEMS)
def add_host_account(request, wish: NewAccount):
    """Say that an account at a code host is a person's; for admins."""
    return Status(201, _account(accounts.add(_team(request), wish.model_dump(), caller=request.auth)))


@router.delete("/host-accounts/{host_account_id}", response={204: None} | PROBLEMS)
def remove_host_account(request, host_account_id: UUID):
    """Forget whose an account is: it starts and answers nothing from then on."""
    row = _find(request, HostAccount, host_account_id, "account", accounts.require)
    accounts.remove(row, caller=request.auth)
    return Status(204, None)


def _team(request) -> Team:
    if not request.auth.is_person:
        raise not_allowed("Only people see what gives tasks.")
    return Team.objects.get(pk=request.auth.team_ids[0])


def _find(request, model, pk: UUID, what: str, require):
    team = _team(request)
    require(request.auth, team)
    return lookup.find(model.objects.filter(team=team).select_related("team"), pk, what)


def _source(request, row: HostedRepository) -> dict:
    names = ("id", "address", "kind", "environment", "label", "mention", "attempts", "minutes", "delivered_at")
    told = {name: getattr(row, name) for name in (*names, "refused", "problem")} | {"webhook": None, "secret": None}
    if request.auth.can("start_agents", row.team_id):
        webhook = repositories.webhook_of(row)
        told |= {"webhook": f"{settings.HANDRAIL_DESK_URL}{webhook.path}", "secret": webhook.secret}
    return told


def _account(row: HostAccount) -> dict:
    about = {"id": row.pk, "person": row.user.get_username(), "host": row.origin, "login": row.login}
    return about | {"is_seen": bool(row.account)}
