"""What a model read and wrote for a call, as its agent reports it."""

from django.db import models


class ModelUsage(models.Model):
    """Tokens of one action, reported with its outcome."""

    action = models.OneToOneField("approvals.Action", models.CASCADE, related_name="usage")
    model = models.CharField(max_length=100, blank=True)
    input_tokens = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["at"], name="usage_by_time")]

    def __str__(self):
        return f"{self.input_tokens} + {self.output_tokens} tokens"
