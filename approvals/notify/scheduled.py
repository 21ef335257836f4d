"""Tell the owner of a schedule that a run failed, or that its budget is met."""

from functools import partial

from django.db import transaction
from django.utils.translation import gettext

from approvals.notify import direct
from workspaces.models import ScheduledRun


def tell_all() -> int:
    """Tell what was not told yet; return how many were. The Desk shows it to everybody in any case."""
    rows = ScheduledRun.objects.exclude(untold="").select_related("schedule__team", "schedule__owner")
    return sum(_tell(run) for run in rows)


@transaction.atomic
def _tell(run: ScheduledRun) -> bool:
    if not ScheduledRun.objects.filter(pk=run.pk, untold=run.untold).update(untold=""):
        return False  # another host was first
    return direct.tell_member(run.schedule.owner, run.schedule.team_id, partial(_message, run))


def _message(run: ScheduledRun) -> str:
    """Return the message. It goes to services outside, so it has no command and no output."""
    about = {"team": run.schedule.team.name, "name": run.schedule.name}
    if run.untold == "budget":
        return gettext("%(team)s: the schedule %(name)s needs more minutes. Let it run on, or stop it?") % about
    return gettext("%(team)s: the schedule %(name)s failed") % about
