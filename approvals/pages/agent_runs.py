"""Pages of started agents: the list, the form of a new run, and a run with its conversation and its result."""

from datetime import timedelta

from django.http import Http404
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from approvals import agent_runs
from approvals.agent_runs import turns
from approvals.models import Action, AgentRun, AgentRunState, Status
from approvals.pages.agent_run_forms import BudgetForm, NewRunForm, SayForm
from approvals.sessions import reading
from dashboard.models import Team
from dashboard.problems import Problem
from dashboard.web.pages import READ_OR_WRITE, Slice, carry_out, must, parameters, signed_in, take_form
from workspaces import code_hosts
from workspaces.models import Environment, Prices
from workspaces.pages.push import must_be_shown
from workspaces.programs import checks
from workspaces.services import git_export

MAX_SAID = 12  # of the newest messages, on the page of a run
MAX_CALLS = 20  # that wait for a person
MORNING = 8  # o'clock, until which a run that is to finish overnight may work
TONES = {
    AgentRunState.STARTING: "accent",
    AgentRunState.WORKING: "accent",
    AgentRunState.ASKS: "amber",
    AgentRunState.DONE: "amber",
    AgentRunState.STOPPED: "quiet",
    AgentRunState.INTERRUPTED: "amber",
    AgentRunState.FAILED: "red",
    AgentRunState.ACCEPTED: "calm",
    AgentRunState.DISCARDED: "quiet",
}
GOES_ON = (AgentRunState.STOPPED, AgentRunState.INTERRUPTED, AgentRunState.FAILED)


def _teams(caller) -> list[Team]:
    return [team for team in Team.objects.visible_to(caller).order_by("name") if caller.can("start_agents", team)]


@signed_in
@require_safe
def index(request):
    """List runs, the newest first, those of one workspace or all."""
    chosen = parameters(request, "workspace")["workspace"]
    rows = AgentRun.objects.visible_to(request.caller).work()
    rows = rows.select_related("workspace__team", "agent", "started_by")
    rows = rows.filter(workspace__key=chosen) if chosen else rows
    page = Slice(request, rows)
    context = {
        "nav": "agent-runs",
        "page": page,
        "rows": [(run, TONES[run.state]) for run in page],
        "may_start": bool(_teams(request.caller)),
        "chosen": chosen,
    }
    return render(request, "approvals/agent_runs.html", context)


@signed_in
@READ_OR_WRITE
def new(request):
    """Show the form of a new run, filled in by a link: workspace, environment, task, ticket, program, model."""
    teams = _teams(request.caller)
    if not teams:
        must(request.caller, "start_agents", None)
    form = NewRunForm(request.POST or None, caller=request.caller, teams=teams, initial=_from_link(request))
    if request.method != "POST":
        return _form_page(request, form)
    return take_form(
        request,
        form,
        lambda cleaned: _start(request, form),
        shown=lambda form: _form_page(request, form),
        then=lambda run: reverse("agent-run", args=[run.pk]),
        at="task",
        otherwise=request.path,
        keeps=True,
    )


def _from_link(request) -> dict:
    given = parameters(request, "workspace", "environment", "task", "ticket", "program", "model", "definition")
    named = [(kind, given[kind]) for kind in ("workspace", "environment") if given[kind]]
    place = ":".join(named[0]) if named else ""
    return {name: given[name] for name in ("task", "program", "model", "definition")} | {
        "ticket_url": given["ticket"],
        "place": place,
    }


def _start(request, form: NewRunForm) -> AgentRun:
    place, wish, caller = form.where(), form.wish(), request.caller
    if isinstance(place, Environment):
        place = agent_runs.place_for(place.team, place.name, wish["task"], wish=wish, caller=caller)
    else:
        must(caller, "use_workspace", place.team_id)
    return agent_runs.start(place, wish, caller=caller)


def _form_page(request, form: NewRunForm):
    has_places = bool(form.workspaces or form.environments)
    context = {"nav": "agent-runs", "form": form, "has_places": has_places}
    return render(request, "approvals/agent_run_new.html", context)


def _find(request, pk) -> AgentRun:
    try:
        return agent_runs.find(request.caller, pk)
    except Problem as problem:
        raise Http404(problem.detail) from None


@signed_in
@require_safe
def run(request, pk):
    """Show a run: its pending calls, conversation and turns, and its result once it has ended."""
    return _page(request, _find(request, pk))


def _page(request, run: AgentRun, *, say: SayForm | None = None, budget: BudgetForm | None = None):
    caller, workspace = request.caller, run.workspace
    waits = Action.objects.visible_to(caller).filter(workspace=workspace, status=Status.PENDING)
    waits = waits.filter(session=run.native_id) if run.native_id else waits.none()
    used = {"budget_tokens": run.budget_tokens, "budget_cost": run.budget_cost, "budget_minutes": run.budget_minutes}
    context = {
        "nav": "agent-runs",
        "run": run,
        "tone": TONES[run.state],
        "turns": run.turns.select_related("by", "command"),
        "waits": waits.order_by("number")[:MAX_CALLS],
        "step": _step_of(run, caller),
        "session": run.session,
        "said": _newest_messages(run),
        "checks": checks.checks_of(workspace)[workspace.pk],
        "branch": agent_runs.branch_for(run),
        "later_runs": list(agent_runs.later_runs(run)) if run.before_id else [],
        "has_code_host": code_hosts.repository_of(workspace.remote) is not None,
        "currency": _currency(run),
        **_would_push(run, caller),
        "may_answer": caller.can("start_agents", run.team_id) and not run.is_trial,
        "goes_on": run.state in GOES_ON,
        "uses_relay": turns.uses_relay(run),
        "say_form": say or SayForm(),
        "budget_form": budget or BudgetForm(initial=used),
    }
    return render(request, "approvals/agent_run.html", context)


def _would_push(run: AgentRun, caller) -> dict:
    """Return {sends, seen} of what a pull request would push, for the form that opens it; {} where there is none."""
    decides = caller.can("start_agents", run.team_id) and not run.is_open and not run.is_closed
    if not decides or code_hosts.repository_of(run.workspace.remote) is None:
        return {}
    sends = next(iter(git_export.would_push(run.workspace).get("sends") or ()), {})
    return {"sends": sends, "seen": git_export.seen_of(sends)} if "sha" in sends else {}


def _step_of(run: AgentRun, caller) -> Action | None:
    """Return the newest call of the run's session."""
    rows = Action.objects.visible_to(caller).filter(workspace=run.workspace, session=run.native_id)
    return rows.order_by("-number").first() if run.native_id else None


def _newest_messages(run: AgentRun) -> list:
    if run.session is None:
        return []
    newest = list(reading.messages_of(run.session).order_by("-at", "-seq")[:MAX_SAID])
    return reading.with_started(newest[::-1], run.session)


def _currency(run: AgentRun) -> str:
    prices = Prices.objects.filter(team=run.team_id).first()
    return prices.currency if prices else ""


# Answers --------------------------------------------------------------------------------------------------------------


def _to_answer(request, pk) -> AgentRun:
    found = _find(request, pk)
    must(request.caller, "start_agents", found.team_id)
    return found


@signed_in
@require_POST
def say(request, pk):
    """Send a message, or with `interrupt` end the turn and go on with it."""
    found = _to_answer(request, pk)
    at_once = bool(parameters(request, "interrupt")["interrupt"])
    do = agent_runs.interrupt if at_once else agent_runs.send_text
    words = gettext("Interrupted. The agent continues with your message.") if at_once else gettext("Sent.")
    return take_form(
        request,
        SayForm(request.POST),
        lambda fields: do(found, fields["text"], caller=request.caller),
        shown=lambda form: _page(request, found, say=form),
        then=reverse("agent-run", args=[pk]),
        at="text",
        say=words,
    )


@signed_in
@require_POST
def budget(request, pk):
    """Give the run more, or let it work until the morning."""
    found = _to_answer(request, pk)
    here = reverse("agent-run", args=[pk])
    if parameters(request, "overnight")["overnight"]:
        return carry_out(
            request,
            lambda: agent_runs.extend_budget(found, {"until": _next_morning()}, caller=request.caller),
            then=here,
            say=gettext("The agent may work until 8:00. Risky calls wait for approval."),
        )
    if parameters(request, "team_limit")["team_limit"]:
        return carry_out(request, lambda: agent_runs.extend_budget(found, {}, caller=request.caller), then=here)
    return take_form(
        request,
        BudgetForm(request.POST),
        lambda fields: agent_runs.extend_budget(found, fields, caller=request.caller),
        shown=lambda form: _page(request, found, budget=form),
        then=here,
        at="budget_minutes",
        say=gettext("Budget extended."),
    )


def _next_morning():
    """Return the next MORNING in the viewer's zone."""
    now = timezone.localtime()
    at = now.replace(hour=MORNING, minute=0, second=0, microsecond=0)
    return at if at > now else at + timedelta(days=1)


def _act(request, pk, do, say: str):
    found = _to_answer(request, pk)
    return carry_out(request, lambda: do(found, caller=request.caller), then=reverse("agent-run", args=[pk]), say=say)


@signed_in
@require_POST
def stop(request, pk):
    return _act(request, pk, agent_runs.stop, gettext("Stopping. The session and the files are kept."))


@signed_in
@require_POST
def go_on(request, pk):
    return _act(request, pk, agent_runs.go_on, gettext("Continuing in the same session."))


@signed_in
@require_POST
def accept(request, pk):
    if not parameters(request, "pull_request")["pull_request"]:
        return _act(request, pk, agent_runs.accept, gettext("Accepted."))

    def with_pull_request(run, caller):
        shown = parameters(request, "sha", "seen")
        must_be_shown(shown)
        return agent_runs.accept(run, {"pull_request": True, **shown}, caller=caller)

    return _act(request, pk, with_pull_request, gettext("Accepted. The pull request is being opened."))


@signed_in
@require_POST
def discard(request, pk):
    words = gettext(
        "Discarded: the files from before the run are being restored, after a snapshot of the current ones."
    )
    shown = set(request.POST.getlist("later"))

    def with_those_shown(run, caller):
        later = {str(each.pk) for each in agent_runs.later_runs(run)}
        return agent_runs.discard(run, {"later": later <= shown}, caller=caller)

    return _act(request, pk, with_those_shown, words)
