"""Periodic tasks of approvals, called by the queue and the runner. They may run at any time, twice, or late."""

from approvals import agent_runs
from approvals.actions import drills, escalation, expiry, gate
from approvals.agent_runs import trials
from approvals.agent_runs.attempts import checking, reviewing
from approvals.line_comments import reviewers
from approvals.models import LogTarget
from approvals.notify import agent_runs as agent_run_notices
from approvals.notify import going, notices, scheduled
from dashboard.database import clock
from dashboard.workers import outbox
from workspaces.services import schedules

NOTIFY_SECONDS = LOG_SECONDS = 60  # after which a task ends; what is left is due again at once
WEBHOOK_SECONDS = 5


def sweep() -> int:
    """End the actions that are due, and pass on those that nobody decided in time; return how many changed."""
    return gate.sweep() + escalation.sweep() + expiry.follow_operations()


def follow_agents() -> int:
    """Bring the runs of started agents further, check what they did, and tell who started them.

    Return how many were looked at.
    """
    looked_at = agent_runs.step() + trials.step() + checking.step() + reviewing.step(reviewers.write)
    agent_run_notices.tell_all()
    return looked_at


def forget_notifications():
    """Delete records of old notifications, and give up webhooks that could not be sent for too long."""
    from approvals.protocols.aap import sending  # here: the runner, which also loads this module, sends nothing

    notices.forget(clock.now())
    sending.forget(clock.now())


def warn_owners():
    """Tell owners which of their workspaces retention takes soon; and note the drills that nobody answered."""
    going.warn(clock.now())
    drills.end_unanswered(clock.now())


def notify() -> int:
    """Bring notices in step with the actions, and send what is due; return how many deliveries were sent."""
    from approvals.notify import sending  # here: the runner, which also loads this module, sends nothing

    return outbox.send_due(sending.Notifications(), seconds=NOTIFY_SECONDS, before_each=notices.reconcile)


def tell_admins() -> int:
    """Notify admins of the alerts in their team's log; return how many events were taken."""
    from approvals.notify.log_targets import sending  # as above

    return outbox.send_due(sending.LogEvents(LogTarget.objects.to_people()), seconds=LOG_SECONDS)


def send_log() -> int:
    """Send the logs of teams to other systems and to folders; return how many events were taken."""
    from approvals.notify.log_targets import sending  # as above

    return outbox.send_due(sending.LogEvents(LogTarget.objects.to_systems()), seconds=LOG_SECONDS)


def send_webhooks() -> int:
    """Send due webhooks to the receivers of agents' instances; return how many were accepted."""
    from approvals.protocols.aap import sending  # as above

    return outbox.send_due(sending.Webhooks(), seconds=WEBHOOK_SECONDS)


def follow_code_hosts() -> int:
    """Start the tasks that code hosts give, and follow their threads; return at how many rows was looked."""
    from approvals.agent_runs.code_host import following, starting  # here: only the queue asks code hosts

    return starting.step() + following.step()


def run_schedules() -> int:
    """Start what schedules have due, follow it, and tell owners of failures; return how many runs were looked at."""
    looked_at = schedules.step()
    scheduled.tell_all()
    return looked_at
