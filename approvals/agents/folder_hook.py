"""The contract of an agent whose hook goes into a connected folder, and of one whose hook can gate a whole machine.

They read and write the agent's settings files. Rows, tokens and test calls are the work of `approvals/connect/`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class AllowRules:
    """`own` rules are from the user's settings, `committed` ones from files that the repository may have brought."""

    own: list[str]
    committed: list[str]


class FolderHook(ABC):
    """The hook of one agent in a connected folder. `connection` is the folder's connection file."""

    settings_file: Path  # below the folder

    @abstractmethod
    def check(self, folder: Path) -> str | None:
        """Return the text of the settings file, None if it does not exist. Problem 422 if the hook cannot be put in."""

    @abstractmethod
    def line(self, connection: Path, role: str, folder: Path) -> str:
        """Return the shell command of the hook's program as "gate" or "report"."""

    @abstractmethod
    def put_in(self, folder: Path, connection: Path) -> str:
        """Merge the hook into the settings; return a note on sessions that it gates or not. Problem 422."""

    @abstractmethod
    def take_out(self, folder: Path, connection: Path):
        """Remove the hook from the settings: byte for byte as before if nothing else in them changed."""

    @abstractmethod
    def problem(self, folder: Path, connection: Path) -> str:
        """Return why a new session in the folder would not be gated; "" if it would be."""

    @abstractmethod
    def allow_rules(self, folder: Path) -> AllowRules:
        """Return the rules by which the agent itself would let calls run in the folder."""

    @abstractmethod
    def other_hook(self, folder: Path) -> str:
        """Return a sentence on a hook of somebody else's that could change a call; "" if there is none."""


class MachineHook(ABC):
    """The hook of one agent for all users of a machine. Only root writes its files."""

    settings_file: Path
    connection: Path  # in a folder of Handrail's own

    @abstractmethod
    def check(self) -> str | None:
        """Return the text of the settings file, None if it does not exist. Problem 422 if the hook cannot be put in."""

    @abstractmethod
    def is_put_in(self) -> bool:
        """Return whether the hook gates this machine, so that a hook in a folder would ask a second time."""

    @abstractmethod
    def line(self, role: str) -> str:
        """Return the shell command of the hook's program as "gate" or "report"."""

    @abstractmethod
    def install_program(self, connected: dict):
        """Write the hook's program and its connection file, which every user of the machine can read."""

    @abstractmethod
    def remove_program(self, connected: dict):
        """Remove what `install_program` has written."""

    @abstractmethod
    def put_in(self, before: str | None):
        """Merge the hook into the settings, whose text was `before`."""

    @abstractmethod
    def take_out(self, connected: dict):
        """Remove the hook from the settings. `connected` is the content of the connection file."""
