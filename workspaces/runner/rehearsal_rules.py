"""The network of a rehearsal: no host is reached, and each that was tried is remembered for the card."""

from dataclasses import dataclass, field

from workspaces.egress.attempts import Attempt, Block, BlockCode
from workspaces.runner.network import RunRules

MAX_HOSTS = 20
REFUSED = Block(BlockCode.NOT_LISTED, "a command that is only tried reaches no host")


@dataclass
class RehearsalRules(RunRules):
    """Refuse every host and keep the names in memory: a rehearsal leaves no row about the workspace's network."""

    reaches_handrail: bool = False
    tried: dict = field(default_factory=dict)  # (host, port), in the order of the first attempts

    async def check(self, host: str, port: int) -> Block | None:
        return REFUSED

    async def admit(self, attempt: Attempt) -> Block | None:
        return REFUSED

    async def close_revoked(self):
        """Nothing was allowed, so nothing is revoked."""

    def log_blocked(self, attempt: Attempt):
        if attempt.host and len(self.tried) < MAX_HOSTS:
            self.tried[attempt.host, attempt.port] = True

    def how_to_allow(self, host: str, port: int) -> str:
        return "It runs for real once a person approves it."

    def hosts(self) -> list[tuple[str, int]]:
        return list(self.tried)
