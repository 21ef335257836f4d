"""Repositories at code hosts that give tasks: saved and removed by leads, with a webhook secret that is derived."""

from dataclasses import dataclass

from django.urls import reverse

from approvals.models import HostedRepository, HostKind
from approvals.models.code_hosts import MAX_WORD
from approvals.models.tasks import MAX_ATTEMPTS
from dashboard.database import clock
from dashboard.models import Event, Team
from dashboard.people.access import Caller
from dashboard.people.tokens import derived
from dashboard.problems import conflict, invalid, not_allowed
from workspaces import code_hosts
from workspaces.provisioning import eligibility
from workspaces.services import schedules

MAX_REPOSITORIES = 200
CHANGEABLE = ("kind", "environment", "label", "mention", "attempts", "minutes")


@dataclass(frozen=True)
class Webhook:
    """What is entered at the host: the path of the address, and the secret."""

    path: str
    secret: str


def webhook_of(row: HostedRepository) -> Webhook:
    secret = derived(f"code-host-webhook:{row.pk}:{row.secret_number}")
    return Webhook(reverse("code-host-hook", args=[row.kind]), secret)


def of_team(team) -> list[HostedRepository]:
    return list(HostedRepository.objects.filter(team=team).order_by("address"))


def require(caller: Caller, team):
    """Problem 403 unless the caller may say what starts agents in the team."""
    if not caller.is_person or not caller.can("start_agents", team):
        raise not_allowed("Only a lead or admin can let a repository give tasks.")


def save(team: Team, wish: dict, *, caller: Caller) -> HostedRepository:
    """Let a repository give tasks, or change how: {address, kind, environment, label?, mention?, attempts?, minutes?}.

    Problem 403, 409, 422 with its `field`.
    """
    require(caller, team)
    fields = _checked(team, wish, caller)
    now = clock.now()
    with Team.objects.turn(team.pk):
        rows = HostedRepository.objects.filter(team=team)
        known = rows.filter(address=fields["address"]).exists()
        if not known and rows.count() >= MAX_REPOSITORIES:
            raise conflict(f"A team can have at most {MAX_REPOSITORIES} repositories that give tasks.")
        begins = {"created_at": now, "read_to": now, "read_at": now}
        row, _ = rows.update_or_create(
            team=team,
            address=fields["address"],
            defaults=fields | {"read_at": now, "problem": ""},
            create_defaults=fields | begins,
        )
        _record(row, caller, "hosted_repository.saved")
    return row


def _checked(team: Team, wish: dict, caller: Caller) -> dict:
    found = code_hosts.repository_of((wish.get("address") or "").strip())
    if found is None:
        raise invalid("Give the address of a repository, as in https://github.com/owner/name.", field="address")
    if wish.get("kind") not in HostKind.values:
        raise invalid(f"The kind is one of: {', '.join(HostKind.values)}.", field="kind")
    environment = eligibility.find_environment(team, wish.get("environment") or "default", caller)
    label, mention = (" ".join((wish.get(name) or "").split()) for name in ("label", "mention"))
    mention = mention or "@handrail"
    for name, word in (("label", label), ("mention", mention)):
        if len(word) > MAX_WORD or not word.isprintable() or "," in word:
            raise invalid(f"Give at most {MAX_WORD} characters, without commas.", field=name)
    if len(mention) < 3 or " " in mention:
        raise invalid("A mention is one word of at least three characters.", field="mention")
    attempts, minutes = wish.get("attempts") or [{}], wish.get("minutes")
    if len(attempts) > MAX_ATTEMPTS:
        raise invalid(f"A task has at most {MAX_ATTEMPTS} attempts.", field="attempts")
    if minutes is not None and not 1 <= minutes <= schedules.MAX_MINUTES:
        raise invalid(f"Give 1 to {schedules.MAX_MINUTES:,} minutes, or none.", field="minutes")
    about = {"kind": wish["kind"], "environment": environment.name, "label": label, "mention": mention}
    return about | {"address": f"{found.base}/{found.path}", "attempts": attempts, "minutes": minutes}


def renew_secret(row: HostedRepository, *, caller: Caller):
    """Put another webhook secret in force; webhooks with the one from before are refused. Problem 403."""
    require(caller, row.team_id)
    with Team.objects.turn(row.team_id):
        row.secret_number += 1
        row.save(update_fields=["secret_number"])
        _record(row, caller, "hosted_repository.secret_renewed")


def remove(row: HostedRepository, *, caller: Caller):
    """Let the repository give no more tasks. Tasks that it gave go on, and are read as before. Problem 403."""
    require(caller, row.team_id)
    with Team.objects.turn(row.team_id):
        _record(row, caller, "hosted_repository.removed")
        row.delete()


def _record(row: HostedRepository, caller: Caller, verb: str):
    about = {"repository": str(row), "kind": row.kind, "environment": row.environment, "label": row.label}
    Event.objects.record(row.team_id, actor=caller.actor, verb=verb, subject=row, data=about)
