"""The authority that issues the certificates of hosts."""

from django.db import models


class HostAuthority(models.Model):
    """The certificate authority of all hosts of this database; one row (workspaces/host/membership.py)."""

    ONLY = 1  # the primary key of the row

    installation = models.CharField(max_length=64)  # the identity that each certificate names
    certificate = models.TextField()  # PEM
    value = models.BinaryField()  # its private key, encrypted with the key ring
    made_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "host authorities"

    def __str__(self):
        return f"authority of {self.installation}"
