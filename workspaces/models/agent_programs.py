"""Agents' programs that all hosts share."""

from django.db import models


class SharedAgentProgram(models.Model):
    """An agent's program that HANDRAIL_BUCKET has as one archive, for the hosts of a platform.

    Only an archive with this digest is unpacked, so that who can write to the bucket cannot replace a program.
    """

    named = models.CharField(max_length=80)  # NAME@VERSION
    platform = models.CharField(max_length=40)  # such as linux-x86_64
    digest = models.CharField(max_length=64)  # BLAKE3 of the archive, in hexadecimal
    bytes = models.PositiveBigIntegerField()  # of the archive
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["named", "platform"], name="agent_program_shared_once")]

    def __str__(self):
        return f"{self.named} for {self.platform}"
