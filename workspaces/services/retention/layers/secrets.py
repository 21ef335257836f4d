"""Secrets that have expired."""

from workspaces import secrets
from workspaces.models import Secret
from workspaces.services.retention.actor import SWEEPER
from workspaces.services.retention.layers.base import Item, Layer, Terms


class ExpiredSecrets(Layer):
    name = "secrets"
    label = "Expired secrets"
    covers = "The stored values, which programs no longer get. Files are still searched for values that programs had."
    default = Terms(30)
    by_environment = False
    unit = "days after they expired"

    def due(self, scope):
        cutoff = scope.terms(self).cutoff(scope.at)
        if cutoff is not None:
            for secret in Secret.objects.filter(team=scope.team, expires_at__lt=cutoff):
                yield Item(secret.pk, f"secret {secret.name}", secret.expires_at)

    def delete(self, scope, items):
        for secret in Secret.objects.filter(pk__in=[item.pk for item in items]):
            secrets.delete(secret, by=SWEEPER)
