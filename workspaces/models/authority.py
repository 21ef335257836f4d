"""The authority that issues the certificates of hosts, and the tokens with which hosts join."""

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


class JoinToken(models.Model):
    """Lets one new host join the installation, once (workspaces/host/joining.py)."""

    code = models.CharField(max_length=16, unique=True)  # what names it, in hex; no secret
    host = models.CharField(max_length=120)  # the name that the new host gets
    sha256 = models.CharField(max_length=64)  # of its secret
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self):
        return f"token for {self.host}"
