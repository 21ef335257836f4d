"""What a person asked an agent, as the agent's session says."""

from django.db import models

from dashboard.models import Agent

HEAD_LINES, HEAD_CHARACTERS = 3, 240


class SessionPrompt(models.Model):
    """A prompt of an agent's session. It is no evidence: whoever holds the agent's token can write it.

    Cards show it beside what the agent asks for; the policy never reads it.
    """

    id = models.BigAutoField(primary_key=True)
    agent = models.ForeignKey(Agent, models.CASCADE, related_name="+")
    session = models.CharField(max_length=200)
    text = models.TextField()  # without secret values, cut to approvals.sessions.prompts.MAX_TEXT
    at = models.DateTimeField()

    class Meta:
        indexes = [
            models.Index(fields=["agent", "session", "at"], name="prompt_by_session"),
            models.Index(fields=["at"], name="prompt_by_time"),
        ]

    def __str__(self):
        return f"a prompt of {self.agent_id}"

    @property
    def head(self) -> str:
        """What a card shows at first: three lines, and not too many characters of them."""
        first = "\n".join(self.text.split("\n")[:HEAD_LINES])
        return first if len(first) <= HEAD_CHARACTERS else f"{first[:HEAD_CHARACTERS]}…"

    @property
    def is_longer(self) -> bool:
        return self.head != self.text
