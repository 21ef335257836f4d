"""Take over the Runs of this host that live on in a cluster, after a start that ended its connections to them.

The host was started anew: with an empty HANDRAIL_HOME, as a pod of the Helm chart without a disk is, or with its own,
after its machine or its pod was replaced. What it led goes on for a day, and what it needs is in the database.
"""

import logging

from django.db.models import F

from dashboard.models import Actor, Team
from workspaces import operations
from workspaces.drivers.base import DriverError
from workspaces.lifecycle import led_on, lost_hosts
from workspaces.models import Operation, Phase, Run, State, Workspace
from workspaces.runner.run_spec import spec_of

logger = logging.getLogger("handrail.runner")
RUNNER = Actor.system("runner")
REPEATABLE = operations.WAITING_KINDS | {"ended"}  # they find what is done already


async def take_over(daemon):
    """Submit the take-over of each Run of this host that goes on without a connection to this host.

    Call it before anything looks after Runs and operations: to both, what is not connected has ended.
    """
    for driver, run, owner in await daemon.with_owners(await daemon.thread(_left_open, daemon.row)):
        try:
            if await _goes_on_alone(daemon, driver, run, owner):
                await daemon.thread(_submit, daemon, run)
        except DriverError as error:
            logger.warning("the run %s is not taken over: %s", run.pk, error)
        except Exception:  # it is closed then, and the host starts all the same
            logger.exception("the run %s is not taken over", run.pk)


def _left_open(row) -> list[Run]:
    """Return the Runs that were up when this host stopped, and that another start can lead.

    A Run whose creation was under way is left out: that begins again.
    """
    creating = Operation.objects.open().filter(kind="create").values("workspace")
    runs = Run.objects.filter(runner=row, ended_at=None, ready_at__isnull=False, lead__isnull=False)
    runs = runs.filter(workspace__runner=row, workspace__state=State.READY).exclude(workspace__in=creating)
    return list(runs.select_related("workspace__environment", "workspace__team", "workspace__runner"))


async def _goes_on_alone(daemon, driver, run: Run, owner) -> bool:
    if owner is None:  # if its files are here, it was about to be closed
        return driver.lacks_files(await daemon.thread(spec_of, run.workspace, run.pk))
    return not owner.stopping and not await driver.leads(owner)


def _submit(daemon, run: Run):
    row, workspace = daemon.row, run.workspace
    reason = f"{row.host} was started anew"
    with Team.objects.turn(workspace.team_id):
        for begun in Operation.objects.filter(workspace=workspace, phase=Phase.STARTED):
            if begun.kind in REPEATABLE:
                daemon.ledger.write(begun.pk, begun.epoch, "claimed")
                operations.requeue(begun)
            elif not led_on.hand_on(begun, row):
                lost_hosts.end_begun(begun, row, f"Its host {reason}.")
        Workspace.objects.filter(pk=workspace.pk).update(lead_epoch=F("lead_epoch") + 1)
        workspace.lead_epoch += 1
        words = f"{reason}, and takes over what runs."
        lost_hosts.have_taken_over(workspace, run, row, led_by=row.host, reason=words, by=RUNNER)
