"""Extension points for the apps above this one, which register here because workspaces must not import them.

`approvals.apps` sets `ask_a_person` when Django is ready; `manage.py runner` adds the rest before the daemon starts.
"""

from collections.abc import Callable
from typing import Protocol


class AgentJobs(Protocol):
    """How the scheduled runs of an agent are checked, started, followed and stopped. Set when Django is ready."""

    def check(self, environment, team, job: dict) -> dict:
        """Return {program, model, task, budget_tokens, budget_cost} of a wished job. Problem 409, 422."""

    def start(self, run, workspace, caller) -> None:
        """Start the agent for a ScheduledRun, in the caller's transaction. Problem."""

    def end_of(self, run) -> tuple[str, str] | None:
        """Return (ScheduledState, reason) once the agent has ended, None while it works or asks."""

    def stop(self, run, caller) -> None:
        """End the agent of a ScheduledRun."""


# (caller, AskFirst, idempotency key) -> {action, status, url, …}: create an action for a person to decide on.
ask_a_person: Callable | None = None

# (workspace, shell command, cwd) -> whether the policy lets an agent's shell call run unasked that nothing holds.
runs_unasked: Callable | None = None

# (id of an action) -> {id, number} or None: how manifests name the approved action behind a snapshot.
name_of_action: Callable | None = None

# (workspace) -> number of the snapshot from before the work of a started agent that works there now; None without one.
work_began_at: Callable | None = None

kinds: dict[str, object] = {}  # further kinds of operations, by Operation.kind
sweeps: list = []  # further workspaces.runner.sweeps.Sweep that the runner looks at every few seconds
system_files: list[Callable] = []  # (workspace) -> {path below /etc: content} for the agent's programs
agent_jobs = None  # an AgentJobs: how schedules start agents
# (id of a team, since) -> (tokens, cost) that its started agents have used or reserved at models since then.
used_by_agents: Callable | None = None
program_variables: list[Callable] = []  # (operation) -> {variable: value} for its program alone; redacted from output
# (workspace) -> [(heading, lines of Markdown)]: what a pull request says of the work beside commits and commands.
told_of_work: list[Callable] = []
# (workspace, tree): called at the end of a run, while `tree.files("home")` can be read and nothing runs any more.
home_readers: list[Callable] = []
# (section of a changed file, caller): puts people's comments beside its lines.
place_comments: Callable | None = None
# (workspace, caller) -> what the Changes tab shows of the caller's drafts; None without any.
drafts_on: Callable | None = None
# (workspaces, now) -> {(id of a workspace, id of an agent as text)}: which agents have something under way there
# besides operations.
agents_at_work: list[Callable] = []
# (workspace) -> rows with `pk`, `at`, `who`, `text`, `url`: what was said in agents' sessions, for its timeline.
said_in: Callable | None = None
# (workspace) -> [{kind, name, words, by, url}]: its open questions, for its hand-over.
open_questions: list[Callable] = []
# (user, text): notify one person; in the caller's transaction.
tell_person: Callable | None = None
encrypted: list[Callable] = []  # () -> (queryset, function to the associated data): columns `value` that rotation moves
scrub_rules: dict[str, object] = {}  # label of a model: Rule of workspaces.services.scrub, set when Django is ready
retention_layers: list = []  # further layers of workspaces.services.retention, set when Django is ready
# (team) -> {pk of a snapshot}: those that the card of a waiting action compares with. No rule deletes them meanwhile.
snapshots_compared: list[Callable] = []
# (user) -> queryset of what the person wrote and sent to nobody: deleted when the person is purged.
drafts_of_person: list[Callable] = []
