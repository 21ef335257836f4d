"""What programs printed: the output of commands, and the recordings of terminals."""

from collections import defaultdict

from workspaces.models import Command, Terminal
from workspaces.services.retention.forgetting import being_forgotten, forget
from workspaces.services.retention.layers.base import Item, Layer, Terms


class _Printed(Layer):
    """What rows of `model` printed; `noun` names one."""

    model: type
    noun: str
    default = Terms(90)

    def due(self, scope):
        under_way = being_forgotten(scope.team)
        rows = self.model.objects.filter(workspace__team=scope.team, workspace__purged_at=None, swept_at=None)
        columns = ("pk", "operation_id", "workspace_id", "ended_at")
        for pk, operation, workspace, ended_at in rows.exclude(ended_at=None).values_list(*columns):
            known = scope.workspaces[workspace]
            cutoff = scope.terms(self, known.environment).cutoff(scope.at)
            if cutoff is not None and ended_at < cutoff and str(operation) not in under_way:
                name = f"output of {self.noun} {str(pk)[:8]}"
                yield Item(pk, name, ended_at, workspace, known.key, group=(str(operation),))

    def delete(self, scope, items):
        programs = defaultdict(list)
        for item in items:
            programs[item.workspace_id].append(item.group[0])
        for workspace_id, ids in programs.items():
            forget(workspace_id, programs=ids)


class Output(_Printed):
    name = "output"
    label = "Output of commands"
    covers = "What commands printed. How they ended stays."
    model, noun = Command, "command"


class Recordings(_Printed):
    name = "recordings"
    label = "Recordings of terminals"
    covers = "What was shown in terminals. Who opened them, and when they ended, stays."
    model, noun = Terminal, "terminal"
