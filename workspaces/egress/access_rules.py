"""What the proxy asks of the Run that it serves, and reports to it."""

from typing import Protocol

from .attempts import Attempt, Block


class AccessRules(Protocol):
    """The rules and the log of one Run; the proxy calls these methods."""

    async def check(self, host: str, port: int) -> Block | None:
        """Return None when the Run may reach the host now, else why not."""

    async def admit(self, attempt: Attempt) -> Block | None:
        """Log the connection as allowed and consume a single-use allowance.

        Return None, or why not when the allowance is gone.
        """

    def log_blocked(self, attempt: Attempt) -> None:
        """Log the connection as blocked."""

    def log_ended(self, attempt: Attempt) -> None:
        """Log the bytes relayed by an allowed connection that has ended."""

    def how_to_allow(self, host: str, port: int) -> str:
        """Return a message for the program on how to get a blocked host allowed."""
