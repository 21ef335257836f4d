"""What the door knows of one verb."""

from dataclasses import dataclass

DOOR, GATE, RELAY = "door", "gate", "relay"


@dataclass(frozen=True)
class Verb:
    """The declaration of one verb, from an agent's point of view.

    `agents`, `runs`: whether an agent's token and the token of a Run open it. `held`: the envelope of the program that
    it starts; `unheld`: what becomes of it where nothing can hold that program. `interrupted`, `stopped`: who refuses
    it while the agent is interrupted, or everything in the team is stopped: the door itself; the gate, which knows the
    session and answers a call that it has already; or the relay. Empty: nobody, and `why` says why it goes on.
    `protected`, `secrets`: what happens at the paths of the envelope's two lists.
    """

    agents: bool = True
    runs: bool = True
    held: str = ""
    unheld: str = ""
    interrupted: str = DOOR
    stopped: str = DOOR
    why: str = ""
    protected: str = ""
    secrets: str = ""

    def __post_init__(self):
        if self.agents and not (self.interrupted and self.stopped) and not self.why:
            raise ValueError("a verb that goes on while its agent is interrupted says why")
        if bool(self.held) != bool(self.unheld):
            raise ValueError("a verb that starts a program says what becomes of it where nothing can hold it")
        if self.runs and not self.agents:
            raise ValueError("what is closed to agents is closed to the programs of a Run")


def goes_on(why: str, **more) -> Verb:
    """Return the declaration of a verb that nobody refuses while its agent is interrupted or the team is stopped."""
    return Verb(interrupted="", stopped="", why=why, **more)
