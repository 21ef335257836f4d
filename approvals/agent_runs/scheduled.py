"""How schedules start agents: `workspaces.extensions.AgentJobs`."""

from approvals.agent_runs import answers, requests
from approvals.models import AgentRun, AgentRunState
from workspaces.models import ScheduledState

ENDS = {
    AgentRunState.DONE: ScheduledState.PASSED,
    AgentRunState.ACCEPTED: ScheduledState.PASSED,
    AgentRunState.DISCARDED: ScheduledState.STOPPED,
    AgentRunState.STOPPED: ScheduledState.STOPPED,
    AgentRunState.FAILED: ScheduledState.FAILED,
    AgentRunState.INTERRUPTED: ScheduledState.UNCLEAR,
}


def check(environment, team, job: dict) -> dict:
    """Return the job with the names as they are wished for: which version runs, the environment says at that time."""
    found = requests.check(environment, team, job)
    told = {"program": job.get("program") or "", "model": job.get("model") or "", "task": found["task"]}
    cost = found["budget_cost"]
    return told | {"budget_tokens": found["budget_tokens"], "budget_cost": None if cost is None else str(cost)}


def start(run, workspace, caller):
    wish = run.schedule.agent_job | {"budget_minutes": run.schedule.budget_minutes}
    requests.start(workspace, wish, caller=caller, scheduled=run)


def end_of(run) -> tuple[str, str] | None:
    found = AgentRun.objects.filter(scheduled=run).first()
    if found is None:
        return ScheduledState.UNCLEAR, "The run of its agent was deleted."
    state = ENDS.get(found.state)
    return (state, found.reason) if state else None


def stop(run, caller):
    found = AgentRun.objects.filter(scheduled=run).first()
    if found is not None and found.is_open:
        answers.stop(found, caller=caller)
