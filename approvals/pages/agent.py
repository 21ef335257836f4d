"""An agent's page: whose it is, what it may use, its tokens, sessions, grants and denials, and what it did on a day."""

from datetime import timedelta

from django import forms
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from approvals.pages.changed import Row
from approvals.pages.given_tasks import open_tasks
from approvals.reports.agent_day import actions_of, day_of
from approvals.reports.agent_identity import MAX_PLACES, Identity
from approvals.reports.agent_tasks import MOST_CALLS, day_tasks
from approvals.reports.tasks import tasks_of
from approvals.reports.tasks.task import OPEN_FOR
from approvals.sessions.reading import SUB_AGENTS
from dashboard.database import clock
from dashboard.models import Agent
from dashboard.problems import invalid
from dashboard.web import spans
from dashboard.web.pages import carry_out, must, parameters, signed_in, take_form
from workspaces.models import Workspace
from workspaces.services import agent_bindings

MAX_SUGGESTED = 50  # workspaces that the form offers to complete


class BindForm(forms.Form):
    """The key of a workspace in which the agent shall work."""

    key = forms.CharField(
        label=gettext_lazy("Workspace"),
        max_length=64,
        widget=forms.TextInput(
            attrs={"list": "agent-keys", "autocapitalize": "none", "autocomplete": "off", "spellcheck": "false"}
        ),
    )


@signed_in
@require_safe
def agent(request, pk):
    return _page(request, _agent_or_404(request, pk))


@signed_in
@require_POST
def bind(request, pk):
    """Let the agent work in one more workspace."""
    found = _managed(request, pk)
    return take_form(
        request,
        BindForm(request.POST, auto_id="bind-%s"),
        lambda fields: _bind(request, found, fields["key"]),
        shown=lambda form: _page(request, found, form),
        then=reverse("agent", args=[pk]),
        at="key",
        say=gettext("Saved."),
    )


def _bind(request, found: Agent, key: str):
    workspace = _workspaces(request.caller, found).filter(key=key).first()
    if workspace is None:
        raise invalid(gettext("There is no workspace named %(key)s in this team.") % {"key": repr(key)})
    agent_bindings.add(workspace, found.name, by=request.caller.actor)


@signed_in
@require_POST
def unbind(request, pk):
    """End that the agent may work in a workspace that it did not create."""
    found = _managed(request, pk)
    workspace = get_object_or_404(_workspaces(request.caller, found), key=parameters(request, "key")["key"])
    return carry_out(
        request,
        lambda: agent_bindings.remove(workspace, found.name, by=request.caller.actor),
        then=reverse("agent", args=[pk]),
        say=gettext("%(agent)s may no longer work in %(key)s.") % {"agent": found.name, "key": workspace.key},
    )


def _agent_or_404(request, pk) -> Agent:
    return get_object_or_404(Agent.objects.visible_to(request.caller).select_related("owner", "team"), pk=pk)


def _managed(request, pk) -> Agent:
    found = _agent_or_404(request, pk)
    must(request.caller, "manage_agents", found.team)
    return found


def _workspaces(caller, found: Agent):
    return Workspace.objects.visible_to(caller).kept().filter(team=found.team_id)


def _page(request, found: Agent, form: BindForm | None = None):
    caller, now = request.caller, clock.now()
    today = timezone.localtime(now).date()
    day = spans.day_of(parameters(request, "day")["day"]) if request.method != "POST" else None
    day = day or today
    since, until = spans.moment_of(f"{day}"), spans.moment_of(f"{day}", days=1)
    facts, did = Identity(found, caller, now), day_of(found, caller, since, until)
    tasks = tasks_of(caller, min(since, now - OPEN_FOR), agent=found)
    of_day = tasks if day == today else tasks_of(caller, since, until, agent=found)
    by_task, is_cut = day_tasks(actions_of(found, caller, since, until), of_day)
    may_manage = caller.can("manage_agents", found.team_id)
    context = {
        "nav": "agents",
        "agent": found,
        "facts": facts,
        "places": facts.places[:MAX_PLACES],
        "more_places": len(facts.places) > MAX_PLACES,
        "usable": sum(not choice.why_not for choice in facts.environments),
        "sub_agents": SUB_AGENTS,
        "may_manage": may_manage,
        "may_decide": caller.can("decide", found.team_id),
        "bind_form": form or BindForm(auto_id="bind-%s"),
        "is_refused": form is not None,
        "keys": _suggested(caller, found, facts) if may_manage else [],
        "day": day,
        "days": _days(day, today),
        "did": did,
        "changed": [Row(each) for each in did.changed.rows],
        "given": open_tasks(caller, attempts__run__agent=found),
        "now_tasks": [task for task in tasks if task.is_open],
        "by_task": by_task,
        "is_cut": is_cut,
        "most_calls": MOST_CALLS,
    }
    return render(request, "approvals/agent.html", context)


def _suggested(caller, found: Agent, facts: Identity) -> list[str]:
    """Return the keys of the workspaces that were used last and in which the agent may not work yet."""
    known = [place.workspace.pk for place in facts.places]
    others = _workspaces(caller, found).exclude(pk__in=known).order_by("-last_active_at")
    return list(others.values_list("key", flat=True)[:MAX_SUGGESTED])


def _days(day, today) -> list[tuple]:
    """Return today, yesterday, and the days beside the shown one, for parts/filters.html."""
    named = {today: gettext("Today"), today - timedelta(days=1): gettext("Yesterday")}
    beside = {day - timedelta(days=1): gettext("The day before"), day + timedelta(days=1): gettext("The day after")}
    others = {each: label for each, label in beside.items() if each not in named and each < today}
    return [(f"?day={each}", label, each == day, None) for each, label in (named | others).items()]
