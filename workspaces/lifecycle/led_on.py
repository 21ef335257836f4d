"""Programs that go on when another host takes over the Run that they are in.

The other host's runner gives each of them a new shim (runner/adopting.py). Until then nobody recovers their operations:
a host that finds nothing of a program takes it for one that never began.
"""

from collections.abc import Collection

from django.db.models import F

from workspaces import operations
from workspaces.models import Operation, Phase, ProgramLead, Run, Runner


def hand_on(begun: Operation, to: Runner) -> bool:
    """Have a host go on with a program that another one has begun; False if nothing is kept that it needs for that.

    Call it in the team's turn.
    """
    if begun.phase != Phase.STARTED or not ProgramLead.objects.filter(operation=begun).update(waits=True):
        return False
    Operation.objects.filter(pk=begun.pk).update(runner=to, epoch=F("epoch") + 1, lease_until=None)
    return True


def waiting(run_id) -> list[ProgramLead]:
    """Return the programs of a Run that wait for its new host."""
    return list(ProgramLead.objects.filter(run=run_id, waits=True).select_related("operation"))


def go_on(run_id, adopted: Collection[str]) -> tuple[list[Operation], list[Operation]]:
    """Return (the operations that go on, each with a new epoch; those whose programs were not adopted).

    `adopted`: ids of operations, as text. Call it in the team's turn.
    """
    rows = waiting(run_id)
    going = [row.operation for row in rows if str(row.pk) in adopted and row.operation.phase == Phase.STARTED]
    ended = [row.operation for row in rows if row.operation not in going and row.operation.phase == Phase.STARTED]
    ProgramLead.objects.filter(operation__in=ended).delete()
    ProgramLead.objects.filter(run=run_id).update(waits=False)
    return [operations.take_over(each) for each in going], ended


def left_behind(runner: Runner) -> list[Run]:
    """Return the Runs whose programs wait for a host that takes none of them over any more."""
    taking = Operation.objects.open().filter(kind="take_lead").values("workspace")
    rows = Run.objects.filter(programs__waits=True, programs__operation__runner=runner)
    return list(rows.exclude(workspace__in=taking).distinct())
