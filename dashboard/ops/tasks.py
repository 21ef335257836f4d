"""The scheduled tasks of all apps, and the tasks of the site itself."""

from django.conf import settings
from django_q.models import Schedule

from dashboard.database import clock
from dashboard.ops import database
from dashboard.workers.lanes import LANE_OF

COPIES = 6  # hourly copies of the database to keep

DAILY = 24 * 60
# dotted path: minutes between two runs. The only place where an app's periodic tasks are listed.
SCHEDULED = {
    "dashboard.event_log.checkpoints.sign_all": 1,
    "dashboard.event_log.witness.stamp_all": 1,
    "dashboard.ops.tasks.copy_database": 60,
    "dashboard.ops.scheduled_backups.start_if_due": 15,
    "dashboard.people.sessions.forget_expired": DAILY,
    "approvals.tasks.forget_notifications": DAILY,
    "approvals.tasks.warn_owners": 60,
    "workspaces.tasks.check_caps": 5,
    "workspaces.tasks.check_sweeps": 60,
    "workspaces.tasks.warn_of_secrets": 60,
    "workspaces.tasks.sweep_retention": DAILY,
    "workspaces.tasks.collect_garbage": DAILY,
    "workspaces.tasks.verify_stores": DAILY,
}
# dotted path: the hour (UTC) of its daily run, for tasks whose time people are told.
AT_HOUR = {"workspaces.tasks.sweep_retention": settings.HANDRAIL_SWEEP_HOUR}


def copy_database():
    """Make the hourly copy, SQLite only: PostgreSQL has better means of its own (docs/operations.md)."""
    if database.is_sqlite():
        database.copy_by_name("hourly", keep=COPIES)


def arrange():
    """Make the stored schedule match SCHEDULED, and delete entries that are no longer in it."""
    Schedule.objects.filter(name__startswith="handrail:").exclude(func__in=SCHEDULED).delete()
    for func, minutes in SCHEDULED.items():
        entry, created = Schedule.objects.update_or_create(
            name=f"handrail:{func}",
            defaults={
                "func": func,
                "cluster": LANE_OF[func],
                "schedule_type": Schedule.MINUTES,
                "minutes": minutes,
                "repeats": -1,
            },
        )
        hour = AT_HOUR.get(func)
        # A run that was missed while nothing ran keeps its time: it is due now.
        if hour is not None and (created or entry.next_run.hour != hour):
            entry.next_run = clock.next_at_hour(hour)
            entry.save(update_fields=["next_run"])
