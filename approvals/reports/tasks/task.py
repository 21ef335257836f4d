"""One agent's work on one thing since it began, and its state."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from functools import cached_property

from django.utils.translation import gettext, gettext_lazy

from approvals.models import Action, AgentRun, AgentRunState, AgentSession
from dashboard.models import Agent
from workspaces.changes.comparisons import Lines
from workspaces.models import Workspace

AT_WORK = timedelta(minutes=5)  # after the last sign of life, in which a task counts as being worked on
OPEN_FOR = timedelta(hours=12)  # after the last sign of life, in which a task that nobody ended counts as open


class TaskState(StrEnum):
    """What a task is at, in the order in which people look for it."""

    WAITING = "waiting"  # calls of it wait for a person
    BUDGET = "budget"  # its run asks for more
    WORKING = "working"
    QUIET = "quiet"  # nobody ended it, and nothing was heard of it lately
    REVIEW = "review"  # its run is done, and nobody has accepted or discarded it
    FAILED = "failed"
    STOPPED = "stopped"  # by a person, or with its workspace
    DONE = "done"


OPEN = (TaskState.WAITING, TaskState.BUDGET, TaskState.WORKING, TaskState.QUIET)
OF_RUNS = {
    AgentRunState.STARTING: TaskState.WORKING,
    AgentRunState.WORKING: TaskState.WORKING,
    AgentRunState.ASKS: TaskState.BUDGET,
    AgentRunState.DONE: TaskState.REVIEW,
    AgentRunState.STOPPED: TaskState.STOPPED,
    AgentRunState.INTERRUPTED: TaskState.STOPPED,
    AgentRunState.FAILED: TaskState.FAILED,
    AgentRunState.ACCEPTED: TaskState.DONE,
    AgentRunState.DISCARDED: TaskState.DONE,
}
LABELS = {
    TaskState.WAITING: (gettext_lazy("Waiting for you"), "amber"),
    TaskState.BUDGET: (gettext_lazy("Asks for more budget"), "amber"),
    TaskState.WORKING: (gettext_lazy("Working"), "accent"),
    TaskState.QUIET: (gettext_lazy("Quiet"), "quiet"),
    TaskState.REVIEW: (gettext_lazy("Done, to review"), "amber"),
    TaskState.FAILED: (gettext_lazy("Failed"), "red"),
    TaskState.STOPPED: (gettext_lazy("Stopped"), "quiet"),
    TaskState.DONE: (gettext_lazy("Done"), "calm"),
}


@dataclass(frozen=True)
class Asks:
    """How many calls a task made, and how those were answered that a person had to decide."""

    calls: int = 0
    asked: int = 0
    approved: int = 0
    denied: int = 0
    waiting: int = 0
    failed: int = 0
    running: int = 0


@dataclass
class Task:
    """A session of an agent's program, a run that Handrail started, or else an agent's calls in one workspace.

    `native_id` is the `session` of its actions, "" if they name none. `said` is what the agent wrote last, without
    secret values; `lines` is what differs between the snapshots around it, None if that is not known.
    """

    agent: Agent
    workspace: Workspace | None
    native_id: str
    began_at: datetime
    last_at: datetime
    now: datetime
    ended_at: datetime | None = None
    session: AgentSession | None = None
    run: AgentRun | None = None
    prompt: str = ""
    said: str = ""
    asks: Asks = field(default_factory=Asks)
    newest: Action | None = None  # its newest call
    lines: Lines | None = None
    is_interrupted: bool = False
    said_pk: int | None = None  # the message of `said`, if it is one of the conversation
    newest_number: int | None = None

    @property
    def key(self) -> str:
        """An id that stays, for its element on a page."""
        if self.run or self.session:
            return str((self.run or self.session).pk)
        place = self.workspace.pk.hex if self.workspace else "nowhere"
        return f"{self.agent.pk.hex}-{place}-{self.began_at:%Y%m%d%H%M%S}"

    @property
    def title(self) -> str:
        """What it was asked, on one line; else where it works."""
        asked = str(self.run) if self.run else (self.session.title if self.session else "") or self.prompt
        if asked:
            return " ".join(asked.split())[:200]
        if self.workspace:
            return self.workspace.description or gettext("Work in %(key)s") % {"key": self.workspace.key}
        return gettext("Calls outside of workspaces")

    @property
    def said_line(self) -> str:
        """The beginning of what it said last, on one line."""
        return " ".join(self.said[:1000].split())[:240]

    @property
    def is_reported(self) -> bool:
        """Whether the title is a prompt as the agent's program reported it, not one that Handrail was given."""
        return self.run is None and bool((self.session and self.session.title) or self.prompt)

    @cached_property
    def state(self) -> TaskState:
        if self.asks.waiting:
            return TaskState.WAITING
        if self.run:
            return OF_RUNS[self.run.state]
        if self.ended_at:
            return TaskState.DONE
        if self.is_interrupted or self.agent.paused_at:
            return TaskState.STOPPED
        if self.asks.running or self.last_at > self.now - AT_WORK:
            return TaskState.WORKING
        return TaskState.QUIET

    @property
    def is_open(self) -> bool:
        """Whether it goes on, as far as is known."""
        return self.state in OPEN and (self.state != TaskState.QUIET or self.last_at > self.now - OPEN_FOR)

    @property
    def label(self) -> str:
        return str(LABELS[self.state][0])

    @property
    def tone(self) -> str:
        return LABELS[self.state][1]

    @property
    def tokens(self) -> int:
        """Those that its models read and wrote; 0 if nothing is known."""
        used = self.run or self.session
        return used.tokens_in + used.tokens_out if used else 0

    @property
    def cost(self) -> Decimal | None:
        """In US dollars for a session, at the team's prices for a run; None if nothing is known."""
        return (self.run or self.session).cost or None if self.run or self.session else None
