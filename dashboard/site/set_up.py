"""The page *Set-up*: what is set up once, a line each with what it is and how it stands."""

from typing import NamedTuple

from django.db.models import Count, Max, Min, Q
from django.shortcuts import render
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_safe

from approvals.models import AgentDefinition, LogTarget
from dashboard.models import Agent, Membership, Team
from dashboard.people import token_list
from dashboard.text.moments import ago, clock
from dashboard.web.pages import signed_in
from workspaces.models import FAILING_STATES, Operation, Schedule, ScheduledRun, Secret
from workspaces.services import environments, secret_expiry, store_maintenance
from workspaces.services.store_maintenance import StoreTask


class Line(NamedTuple):
    """One page of the set-up: its address, name, what it is for, how it stands, and the tone of that."""

    href: str
    name: str
    purpose: str
    state: str
    tone: str = "quiet"


@signed_in
@require_safe
def set_up(request):
    caller = request.caller
    groups = [
        (gettext("Where agents work"), [_environments(caller), _secrets(caller), _schedules(caller)]),
        (gettext("Agents and people"), [_connect(caller), _definitions(caller), _team(caller), _tokens(caller)]),
        (gettext("This Handrail"), [_storage(caller), _targets(caller), _status(), _teams(request)]),
    ]
    shown = [(title, [line for line in lines if line]) for title, lines in groups]
    return render(request, "dashboard/set_up.html", {"nav": "set-up", "groups": shown})


def _managed(caller, verb: str) -> list:
    return [team_id for team_id in caller.team_ids if caller.can(verb, team_id)]


def _environments(caller) -> Line:
    count = environments.newest_versions(caller.team_ids).to_make_from().count()
    return Line(
        reverse("environments"),
        gettext("Environments"),
        gettext("What a workspace is made from: image, source, scripts, hosts, limits."),
        ngettext("%(n)s environment", "%(n)s environments", count) % {"n": count},
    )


def _secrets(caller) -> Line | None:
    teams = _managed(caller, "manage_secrets")
    if not teams:
        return None
    count, ending = Secret.objects.filter(team__in=teams).count(), len(secret_expiry.ending(caller))
    state = ngettext("%(n)s secret", "%(n)s secrets", count) % {"n": count}
    if ending:
        words = ngettext("%(n)s expires within a week", "%(n)s expire within a week", ending) % {"n": ending}
        state = f"{state} · {words}"
    return Line(
        reverse("secrets"),
        gettext("Secrets"),
        gettext("Keys that workspaces and agents are given, and that no page shows."),
        state,
        "amber" if ending else "quiet",
    )


def _schedules(caller) -> Line:
    rows = Schedule.objects.visible_to(caller)
    found = rows.aggregate(all=Count("pk"), next=Min("next_due_at", filter=Q(paused_at=None)))
    latest = ScheduledRun.objects.filter(schedule__in=rows).order_by("-due_at").values_list("state", flat=True)[:1]
    state = ngettext("%(n)s schedule", "%(n)s schedules", found["all"]) % {"n": found["all"]}
    if found["next"]:
        state = format_html("{} · {}", state, format_html(gettext("next at {}"), clock(found["next"])))
    failed = any(each in FAILING_STATES for each in latest)
    if failed:
        state = format_html("{} · {}", state, gettext("the last run failed"))
    return Line(
        reverse("schedules"),
        gettext("Schedules"),
        gettext("Commands, checks and agents that start by the clock."),
        state,
        "red" if failed else "quiet",
    )


def _connect(caller) -> Line:
    seen = Agent.objects.visible_to(caller).aggregate(last=Max("last_seen_at"))["last"]
    return Line(
        reverse("connect"),
        gettext("Connect an agent"),
        gettext("Gate Claude Code, Codex, any MCP or ACP agent, or your own program. Also: sign in on a phone."),
        gettext("last call %(ago)s") % {"ago": ago(seen)} if seen else gettext("no agent has called yet"),
        "calm" if seen else "amber",
    )


def _definitions(caller) -> Line | None:
    teams = _managed(caller, "read_definitions")
    if not teams:
        return None
    count = AgentDefinition.objects.filter(team__in=teams).count()
    return Line(
        reverse("agent-definitions"),
        gettext("Definitions of agents"),
        gettext("Prompt, model and tools of agents that Handrail starts."),
        ngettext("%(n)s definition", "%(n)s definitions", count) % {"n": count},
    )


def _team(caller) -> Line:
    count = Membership.objects.filter(team__in=caller.team_ids).values("user").distinct().count()
    return Line(
        reverse("team"),
        gettext("Team"),
        gettext("People and their roles, passkeys, second factor, address of tickets."),
        ngettext("%(n)s person", "%(n)s people", count) % {"n": count},
    )


def _tokens(caller) -> Line | None:
    teams = _managed(caller, "manage_tokens")
    if not teams:
        return None
    rows = token_list.of_teams(teams).filter(for_run=False)
    live = token_list.in_state(rows, "live").count()
    unused = token_list.in_state(rows, "unused").count()
    state = ngettext("%(n)s valid", "%(n)s valid", live) % {"n": live}
    if unused:
        state += " · " + gettext("%(n)s unused for 90 days") % {"n": unused}
    return Line(
        reverse("tokens"),
        gettext("API tokens"),
        gettext("What agents and people sign in with from outside."),
        state,
        "amber" if unused else "quiet",
    )


def _storage(caller) -> Line:
    damaged = store_maintenance.damaged(caller.team_ids)
    checks = Operation.objects.filter(team__in=caller.team_ids, kind=StoreTask.CHECK.kind)
    last = checks.aggregate(last=Max("settled_at"))["last"]
    state = gettext("not checked yet") if last is None else gettext("checked %(ago)s") % {"ago": ago(last)}
    return Line(
        reverse("storage"),
        gettext("Storage"),
        gettext("What snapshots use, their checks, and what is kept for how long."),
        gettext("damaged") if damaged else state,
        "red" if damaged else "quiet" if last is None else "calm",
    )


def _targets(caller) -> Line | None:
    teams = _managed(caller, "manage_log_targets")
    if not teams:
        return None
    found = LogTarget.objects.filter(team__in=teams, active=True).aggregate(
        all=Count("pk"), failing=Count("pk", filter=~Q(problem=""))
    )
    state = ngettext("%(n)s target", "%(n)s targets", found["all"]) % {"n": found["all"]}
    if found["failing"]:
        state += " · " + gettext("%(n)s not delivered") % {"n": found["failing"]}
    return Line(
        reverse("log-targets"),
        gettext("Log targets"),
        gettext("Where the log is sent while it is written: webhook, syslog, a folder, admins."),
        state,
        "red" if found["failing"] else "quiet",
    )


def _status() -> Line:
    return Line(reverse("status"), gettext("Status"), gettext("What works on this machine, and what to do."), "")


def _teams(request) -> Line | None:
    if not request.user.is_superuser and len(request.all_teams.team_ids) < 2:
        return None
    count = Team.objects.visible_to(request.all_teams).count()
    return Line(
        reverse("teams"),
        gettext("Teams"),
        gettext("Teams of this Handrail: made, renamed, archived."),
        ngettext("%(n)s team", "%(n)s teams", count) % {"n": count},
    )
