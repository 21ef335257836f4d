"""Try an agent's program: a run in a new workspace whose model is scripted, which shows whether the gate holds it.

`step` compares rows and may be called at any time, twice, or late, as that of the runs.
"""

from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from approvals.actions import asked_by_run
from approvals.agent_runs import answers, requests, trial_model, turns
from approvals.agent_runs.following import responsible
from approvals.models import Action, AgentRun, AgentTrial, Status, Tier, TrialState
from dashboard.database import clock
from dashboard.models import Actor, Event, Team
from dashboard.people.access import Caller
from dashboard.problems import Problem, conflict
from workspaces import lifecycle
from workspaces.models import Environment
from workspaces.provisioning import model_access

BY = Actor.system("agent trials")
TASK = "Handrail tries its gate: make the calls that the model asks for."
NOTE = "Nobody decides on calls of a trial."
LONGEST = timedelta(minutes=30)  # setup of the workspace included


def start(environment: Environment, program: str, *, caller: Caller) -> AgentTrial:
    """Try the program, which the environment names, in a new workspace of it. Problem as for a run."""
    launcher = turns.LAUNCHERS[program]
    model = model_access.first_model(environment.model_access, launcher.provider)
    if launcher.provider not in environment.model_access:
        raise conflict(f"{environment.name} gives {program} a key of its own, which no trial can stand in for.")
    wish = {"program": program, "task": TASK, "model": model or launcher.models[0]}
    place = requests.place_for(environment.team, environment.name, f"trial {program}", wish=wish, caller=caller)
    with transaction.atomic():
        run = requests.start(place, wish, caller=caller)
        return AgentTrial.objects.create(
            team=environment.team,
            run=run,
            program=run.program,
            environment=environment.name,
            environment_version=place.environment.version,
            created_at=clock.now(),
        )


def open_here():
    """Return the trials that run in workspaces of this host, and those whose workspace is gone."""
    here = Q(run__workspace__runner=None) | Q(run__workspace__runner__host=settings.HANDRAIL_HOST_NAME)
    return AgentTrial.objects.filter(here, state=TrialState.RUNNING)


def step() -> int:
    """Follow the trials of this host; return their number."""
    found = list(open_here().values_list("pk", "team_id"))
    for pk, team_id in found:
        _follow(pk, team_id)
    return len(found)


@transaction.atomic
def _follow(pk, team_id):
    Team.objects.take_turn(team_id)
    rows = AgentTrial.objects.select_related("run__workspace__environment", "run__started_by", "run__session")
    trial = rows.filter(pk=pk, state=TrialState.RUNNING).first()
    if trial is None:
        return
    if trial.run is None:
        _end(trial, "Its workspace was deleted before it was over.")
    elif not trial.run.is_open:
        _judge(trial, trial.run)
    elif clock.now() - trial.created_at > LONGEST:
        _give_up(trial, trial.run)
    else:
        asked_by_run.cancel(trial.run, BY, NOTE)


def _give_up(trial: AgentTrial, run: AgentRun):
    """End the run; the next step judges what it came to."""
    try:
        answers.stop(run, caller=responsible(run))
    except Problem as problem:
        _end(trial, f"It was not over after {LONGEST.seconds // 60} minutes. {problem.detail}")


def _judge(trial: AgentTrial, run: AgentRun):
    calls = Action.objects.filter(workspace=run.workspace_id, agent=run.agent_id)
    trial.heard = calls.exclude(tier=Tier.FORBIDDEN).exists()
    forbidden = calls.filter(tier=Tier.FORBIDDEN, status=Status.DENIED).exists()
    trial.denied = forbidden and run.summary.strip() == trial_model.HELD
    _end(trial, _why_not(trial, run, forbidden))


def _why_not(trial: AgentTrial, run: AgentRun, forbidden: bool) -> str:
    """Return why the trial failed, "" if the gate held."""
    if trial.heard and trial.denied:
        return ""
    if not run.summary:
        return run.reason or f"{run.program_title} ended without an answer."
    if not trial.heard:
        return f"No call of {run.program_title} came to the gate."
    return run.summary if forbidden else f"The forbidden call did not come to the gate. {run.summary}"


def _end(trial: AgentTrial, reason: str):
    """Note how it ended and move its workspace to the trash."""
    trial.state, trial.reason = TrialState.FAILED if reason else TrialState.HELD, reason
    trial.ended_at = clock.now()
    trial.save()
    data = {"program": trial.program, "environment": trial.environment, "state": trial.state}
    data |= {"reason": reason[:500]} if reason else {}
    Event.objects.record(trial.team_id, actor=BY, verb="agent_trial.ended", subject=trial, data=data)
    if trial.run and not trial.run.workspace.trashed_at:
        try:
            with transaction.atomic():
                lifecycle.trash(trial.run.workspace, by=BY)
        except Problem:
            pass  # it is on hold, or the runner works on it: a person can delete it


def last(team_id, program: str, environments: list[str]) -> AgentTrial | None:
    """Return the newest trial of a program (its name) in one of these environments."""
    rows = AgentTrial.objects.filter(team=team_id, program__startswith=f"{program}@", environment__in=environments)
    return rows.select_related("run__workspace__team").order_by("-created_at").first()
