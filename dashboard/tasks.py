"""The site's own work in the queue, the schedule of everybody's, and the queue's heartbeat."""

from django.conf import settings
from django_q.models import Schedule
from django_q.signals import post_execute, pre_execute
from django_q.tasks import async_task

from dashboard import database

COPIES = 6  # hourly copies of the database that are kept

# dotted path: minutes between two runs. What an app needs regularly stands here, and nowhere else.
SCHEDULED = {
    "dashboard.tasks.copy_database": 60,
    "workspaces.tasks.sweep_retention": 60,
    "workspaces.tasks.collect_garbage": 24 * 60,
    "workspaces.tasks.verify_stores": 24 * 60,
}


def copy_database():
    """The hourly copy, SQLite only: PostgreSQL has better ways of its own (docs/operations.md)."""
    if database.is_sqlite():
        database.copy_by_name("hourly", keep=COPIES)


def beat():
    """Do nothing: that it was fetched, run and acknowledged is the news, and `acknowledged` notes it."""


def ask_for_beat():
    async_task("dashboard.tasks.beat", save=False)


def arrange():
    """Make the schedule what SCHEDULED says; an entry that went from there goes from the database."""
    Schedule.objects.filter(name__startswith="handrail:").exclude(func__in=SCHEDULED).delete()
    for func, minutes in SCHEDULED.items():
        Schedule.objects.update_or_create(
            name=f"handrail:{func}",
            defaults={"func": func, "schedule_type": Schedule.MINUTES, "minutes": minutes, "repeats": -1},
        )


def _note(allowance: int):
    """Tell the supervisor that the queue lives, and for how many seconds more than usual it may now be silent."""
    file = settings.HANDRAIL_RUNTIME / "heartbeat" / "queue"
    try:
        file.write_text(str(allowance))
    except OSError:
        pass  # no supervisor made the folder: nobody is listening


def begun(sender, task, **kwargs):
    """In the worker: a real task may take as long as the queue lets it."""
    if task["func"] != "dashboard.tasks.beat":
        _note(settings.Q_CLUSTER["timeout"])


def acknowledged(sender, task, **kwargs):
    """In the monitor, the last of the queue's processes that can hang: the task went all the way."""
    _note(0)


pre_execute.connect(begun)
post_execute.connect(acknowledged)
