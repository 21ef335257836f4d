"""The challenges that people's passkeys sign to approve critical actions."""

import secrets
import uuid

from django.conf import settings
from django.db import models

from handrail_verify.passkeys import challenge_bytes


def _nonce() -> str:
    return secrets.token_hex(32)


class PasskeyChallenge(models.Model):
    """One challenge, for one person and one approval of one revision; used once."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    action = models.ForeignKey("approvals.Action", models.CASCADE, related_name="+")
    digest = models.CharField(max_length=64)
    verdict = models.CharField(max_length=200)  # approvals.actions.step_up.requirement.verdict_of
    nonce = models.CharField(max_length=64, default=_nonce)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["user", "expires_at"], name="challenge_by_user")]

    def __str__(self):
        return f"challenge of {self.user}"

    @property
    def bytes(self) -> bytes:
        """The challenge itself, which the authenticator signs."""
        return challenge_bytes(
            action=str(self.action_id),
            digest=self.digest,
            expires_at=self.expires_at.isoformat(),
            nonce=self.nonce,
            person=str(self.user_id),
            verdict=self.verdict,
        )
