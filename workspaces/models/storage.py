"""A team's snapshot store: its identity and its maintenance."""

from django.db import models

from dashboard.models import Team


class StoreIdentity(models.Model):
    """The id of a team's snapshot store, as in the `format` file of the store (workspaces/changes/stores.py)."""

    team = models.OneToOneField(Team, models.CASCADE, primary_key=True, related_name="store_identity")
    store_id = models.CharField(max_length=64)
    host = models.CharField(max_length=120, blank=True)  # that the store is on

    class Meta:
        verbose_name_plural = "store identities"

    def __str__(self):
        return f"store of {self.team}"


class StoreKey(models.Model):
    """A key of a team's snapshot store: the newest one encrypts what is written now (workspaces/host/store_keys.py)."""

    team = models.ForeignKey(Team, models.CASCADE, related_name="store_keys")
    named = models.CharField(max_length=16)  # its id, as the store writes it, in hexadecimal
    value = models.BinaryField()  # encrypted with the key ring
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "named"], name="store_key_once")]

    def __str__(self):
        return f"key {self.named} of {self.team}"


class StoreTask(models.TextChoices):
    """What can be done with a store; each is an operation of the team (workspaces/services/store_maintenance.py)."""

    CHECK = "check", "Check"
    COLLECT = "collect", "Free space"
    REPAIR = "repair", "Repair"

    @property
    def kind(self) -> str:
        """Return the kind of its operations."""
        return f"store_{self.value}"
