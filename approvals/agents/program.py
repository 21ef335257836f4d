"""The contract of an agent's program: how it is started without a terminal, and how its output is read.

SCRIPTED starts it on a model on loopback, for the proof of its gate. It is told to allow everything itself: nothing
but the hook stands between the model and the machine. A LAUNCHER starts it in a workspace, where the hook in /etc gates
its calls, so it is told to ask nobody else. There it asks its models at the relay, if the environment gives it some;
else at its provider, with a key that the environment gives its programs.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

MAX_LINE = 4 << 20  # bytes of one line of output that is read
MAX_LAST_LINE = 300  # characters
MAX_SAID = 100_000  # characters of an answer that are kept
ROOT = "/workspace"  # the files, in each workspace
MODEL_TOKEN = "HANDRAIL_MODEL_TOKEN"
MODEL = "scripted"
KEY = "none"  # each agent wants one


@dataclass(frozen=True)
class Scripted:
    """`arguments` and `environment` with {url} for the model's address and {prompt} for the prompt."""

    arguments: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    settings: dict[str, dict] = field(default_factory=dict)  # {path below a home of its own: content}
    reads: tuple[str, ...] = ()  # further files below the home that may switch its hook off
    reads_in_folder: tuple[str, ...] = ()  # and below the folder in which it works

    def command(self, program: str, prompt: str, url: str) -> list[str]:
        """Return the words that start the agent with this prompt, on the model at this address."""
        words = (prompt if word == "{prompt}" else word.replace("{url}", url) for word in self.arguments)
        return [program, *words]

    def variables(self, url: str) -> dict[str, str]:
        """Return the variables that send the agent to the model at this address and nowhere else."""
        given = {name: value.replace("{url}", url) for name, value in self.environment.items()}
        return given | {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}


@dataclass(frozen=True)
class ProgramResult:
    """What a program's output says: its session, its last answer, and its error if it ended with one."""

    session: str = ""
    answer: str = ""
    is_answered: bool = False
    error: str = ""
    has_no_session: bool = False  # it does not know the session that it was to resume
    last_line: str = ""  # the last line that is no event, such as a traceback's


@dataclass(frozen=True)
class Start:
    """One turn: its prompt, the instructions that stand beside it, and the session that it begins or resumes."""

    prompt: str
    instructions: str
    session: str
    is_first: bool
    model: str
    relay: bool
    driver: str  # of its workspace


class Launcher(ABC):
    """One agent's program."""

    name: str  # as in AGENTS
    package: str  # on npm, with a native binary, so that workspaces need no Node
    binary: str  # the pattern of its path in the installed folder
    version: str  # with which Handrail is tried: the one that is installed unless another is named
    provider: str
    models: tuple[str, ...]  # that an environment gives it unless others are named; a name first, then patterns
    key_form: str  # how a key of the provider begins
    key_variable: str  # in which it is given the token of the relay
    own_keys: tuple[str, ...]  # secrets with which it can ask its provider itself

    @abstractmethod
    def argv(self, program: str, start: Start) -> list[str]:
        """Return the command line of a turn."""

    @abstractmethod
    def variables(self, start: Start) -> dict[str, str]:
        """Return its environment, without the token."""

    @abstractmethod
    def read(self, row: dict, result: ProgramResult) -> ProgramResult:
        """Return the result updated with one parsed line of output."""

    def first_session(self) -> str:
        """Return the id that a new session is given; "" if the program chooses one."""
        return ""

    def says_no_session(self, line: bytes) -> bool:
        """Return whether a line that is no event says that the program does not know the session it was to resume."""
        return False

    def parse_output(self, pieces: Iterable[bytes]) -> ProgramResult:
        """Return what the output says, which comes in pieces."""
        result, rest = ProgramResult(), b""
        for piece in pieces:
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                result = self._with_line(line, result)
            rest = rest[-MAX_LINE:]
        return self._with_line(rest, result)

    def _with_line(self, line: bytes, result: ProgramResult) -> ProgramResult:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            said = line.decode("utf-8", "replace").strip()[:MAX_LAST_LINE] or result.last_line
            has_no_session = result.has_no_session or self.says_no_session(line)
            return replace(result, last_line=said, has_no_session=has_no_session)
        return self.read(row, result) if isinstance(row, dict) else result
