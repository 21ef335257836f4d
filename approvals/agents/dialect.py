"""The contract of a dialect: how one agent's hook is read and answered, and which answers the agent supports.

A dialect has no state and asks nobody. It turns the agent's JSON into an event of `hook_events.py`, and a `Reply`
into the agent's JSON. `tests/approvals/agents/test_contract.py` runs with each one.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

from approvals.agents.hook_events import HookEvent, OfCall
from dashboard.text import strict_json

ALLOW, DENY = "allow", "deny"
# What an agent does with the arguments of an answer: takes them as they are, lays them over its own (none can be
# removed), or ignores them.
WHOLE, MERGED, NONE = "whole", "merged", "none"
PRINTS = {"output_mode": "content"}  # what Claude Code's tool is told in order to print lines
# line(role, event): the shell command of the hook's program as "gate" or "report", for an event that has to be named.
Line = Callable[..., str]
HOOK_TIMEOUT = 86_400  # seconds
REPORT_TIMEOUT = 60
ALL_DAY = 86_400 - 300  # seconds; the agents' own time-out for the hook is a day


@dataclass(frozen=True)
class Reply:
    """The answer to an event, in the same words for every agent.

    Without a decision the agent goes on as it would without a hook. That opens nothing but its own question or plan.
    """

    decision: str = ""
    reason: str = ""  # of the decision; at the end of a turn, why the agent has to go on
    arguments: dict | None = None  # the whole input that is allowed, in Handrail's names
    context: str = ""  # more words for the model
    user_message: str = ""  # for the person at the agent's terminal
    ends_turn: str = ""  # why the agent must not go on after this, for the same person
    content: dict | None = None  # the answers to an MCP server's question

    def with_context(self, words: str) -> "Reply":
        """Return the reply with more words for the model."""
        return replace(self, context=f"{self.context}\n\n{words}" if self.context else words)


class Dialect(ABC):
    """One agent. The class attributes are facts, seen with its real program; *Connect* and the tests read them."""

    name: str  # in addresses and commands
    title: str
    program: str  # what `connect` looks for on the PATH
    oldest: tuple[int, int, int]  # `connect` refuses older versions
    why_oldest = "its gate was not tried with this version"
    edits: str  # WHOLE, MERGED or NONE
    takes_context: bool  # words for the model beside an allowed call
    has_call_id: bool
    asks_here: bool = False  # its questions and plans can be answered here
    comes_after_hook: bool = False  # its requests may be about calls that the agent's own hook has allowed
    runs_in_box: bool = False  # a shell call can be answered with one that runs in a connected folder's box
    reports_what_ran: bool = False  # the event after a call holds the arguments that ran, also after an edit
    faults: dict[str, str]  # {one of FAULTS: RUNS or BLOCKED} as its hook is installed
    limits: tuple[str, ...] = ()  # sentences on the limits of its gate
    patience_s: int = ALL_DAY  # how long a call may be held
    hook_patience_s: int = HOOK_TIMEOUT - 120  # when the hook's program gives up: after that, and before the agent does
    names_are_ours: bool = False  # a tool that is not in `tools` has the name that Handrail knows it by
    # {the agent's tool: (Handrail's, {the agent's argument: Handrail's})}
    tools: dict[str, tuple[str, dict[str, str]]] = {}
    printing: tuple[str, ...] = ()  # its searches that print lines without being told to

    @abstractmethod
    def read(self, event: dict, named: str = "") -> HookEvent:
        """Return the event in Handrail's words. `named` is its name where the agent does not tell it. Problem 422."""

    @abstractmethod
    def answer(self, heard: HookEvent, reply: Reply) -> dict:
        """Return the response in the agent's own format: a complete object that states a decision."""

    @abstractmethod
    def deny(self, reason: str) -> dict:
        """Return the response to what could not be read: a denial, whatever it was."""

    @abstractmethod
    def hears(self, heard: HookEvent, reply: Reply) -> bool:
        """Return whether `reply.context` reaches the model in the response to this event."""

    # Settings ------------------------------------------------------------------------------------------------------

    names_of_events = ("", "")  # before and after a call, where the hook's line has to say which it is
    settings_file: str = ""  # below the user's home; "" if the hook goes into the connected folder
    owns_file: bool = False  # the file has nothing but Handrail's hook
    switches: dict = {}  # top-level settings without which the user's hooks might not run

    @abstractmethod
    def hooks(self, line: Line) -> dict[str, dict] | str:
        """Return {event: the group that is added to the settings file}, or the text of a file of Handrail's own."""

    @abstractmethod
    def test_call(self, session: str, cwd: str, *, ended: bool) -> dict:
        """Return the agent's event before a harmless search in `cwd`, or after it (`ended`): the test of `connect`."""

    # Names ---------------------------------------------------------------------------------------------------------

    def canonical(self, tool: str, arguments: dict) -> tuple[str, dict]:
        """Return the call in Handrail's names.

        A tool or an argument that is not in `tools` gives a name that no rule knows, so that a person is asked: an
        agent's own tool may be called `Read` and do anything.
        """
        ours, names = self.tools.get(tool, ("", {}))
        if ours and isinstance(arguments, dict) and set(arguments) <= set(names):
            given = {names[name]: value for name, value in arguments.items()}
            return ours, given | (PRINTS if tool in self.printing and not arguments.get("names_only") else {})
        return (tool if self.names_are_ours else f"{self.name}:{tool}"), arguments

    def native(self, heard: OfCall, arguments: dict) -> dict:
        """Return arguments in Handrail's names under those that the agent has for them; unchanged ones as they came."""
        tool, own = heard.native
        if strict_json.same(arguments, heard.arguments):
            return own
        if heard.tool != self.tools.get(tool, ("",))[0]:
            return arguments
        names = {ours: own for own, ours in self.tools[tool][1].items()}
        if tool in self.printing:
            arguments = {name: value for name, value in arguments.items() if name not in PRINTS}
        return {names.get(name, name): value for name, value in arguments.items()}

    def carries(self, heard: OfCall, arguments: dict) -> bool:
        """Return whether an answer makes the agent run its call with exactly these arguments."""
        if self.edits == WHOLE or strict_json.same(arguments, heard.arguments):
            return True
        return self.edits == MERGED and set(heard.arguments) <= set(arguments)
