"""Periodic tasks of approvals, called by the queue and the runner. They may run at any time, twice, or late."""

import time

from approvals import agent_runs, expiry, gate
from approvals.models import LogTarget
from approvals.notify import agent_runs as agent_run_notices
from approvals.notify import going, notices, scheduled
from dashboard import clock
from workspaces.services import schedules

NOTIFY_SECONDS = 60  # after which the next one begins; what is left is due again at once


def sweep() -> int:
    """End the actions that are due; return how many changed."""
    return gate.sweep() + expiry.follow_operations()


def follow_agents() -> int:
    """Bring the runs of started agents further, and tell who started them; return how many were looked at."""
    looked_at = agent_runs.step()
    agent_run_notices.tell_all()
    return looked_at


def forget_notifications():
    """Delete records of old notifications, and give up webhooks that could not be sent for too long."""
    from approvals.aap import sending  # here: the runner, which also loads this module, sends nothing

    notices.forget(clock.now())
    sending.forget(clock.now())


def warn_owners():
    """Tell owners which of their workspaces retention takes soon."""
    going.warn(clock.now())


def notify() -> int:
    """Bring notices in step with the actions, and send what is due; return how many deliveries were tried."""
    from approvals.notify import sending  # here: the runner, which also loads this module, sends nothing

    notices.reconcile()
    tried, until = 0, time.monotonic() + NOTIFY_SECONDS
    while time.monotonic() < until and (some := sending.send_due()):
        tried += some
        notices.reconcile()  # what came meanwhile
    return tried


def tell_admins() -> int:
    """Notify admins of the alerts in their team's log; return how many events were taken."""
    from approvals.log_out import sending  # as above

    return sending.send_due(LogTarget.objects.to_people())


def send_log() -> int:
    """Send the logs of teams to other systems and to folders; return how many events were taken."""
    from approvals.log_out import sending  # as above

    return sending.send_due(LogTarget.objects.to_systems())


def send_webhooks() -> int:
    """Send due webhooks to the receivers of agents' instances; return how many were accepted."""
    from approvals.aap import sending  # as above

    return sending.send_due()


def run_schedules() -> int:
    """Start what schedules have due, follow it, and tell owners of failures; return how many runs were looked at."""
    looked_at = schedules.step()
    scheduled.tell_all()
    return looked_at
