"""The counted connection attempts of programs."""

from workspaces.models import Contact
from workspaces.services.retention.layers.base import Item, Layer, Terms


class Contacts(Layer):
    name = "contacts"
    label = "Hosts that programs tried to reach"
    covers = "The counts on a workspace's Network page, of hosts that nothing tried to reach for so long."
    default = Terms(90)

    def due(self, scope):
        columns = ("pk", "host", "port", "last_at", "workspace_id")
        rows = Contact.objects.filter(workspace__team=scope.team, workspace__purged_at=None)
        for pk, host, port, last_at, workspace in rows.values_list(*columns):
            known = scope.workspaces[workspace]
            cutoff = scope.terms(self, known.environment).cutoff(scope.at)
            if cutoff is not None and last_at < cutoff:
                yield Item(pk, f"{host}:{port}", last_at, workspace, known.key)

    def delete(self, scope, items):
        Contact.objects.filter(pk__in=[item.pk for item in items]).delete()
