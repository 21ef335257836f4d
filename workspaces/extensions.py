"""What the app above this one adds here, since workspaces must not import it.

Its `ports` and the tables below are set when Django is ready; `manage.py runner` adds what only the runner needs.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

kinds: dict[str, object] = {}  # further kinds of operations, by Operation.kind
sweeps: list = []  # further workspaces.runner.sweeps.Sweep that the runner looks at every few seconds
system_files: list[Callable] = []  # (workspace) -> {path below /etc: content} for the agent's programs
agent_programs: dict[str, object] = {}  # workspaces.provisioning.agent_programs.Program, by its name
encrypted: list[Callable] = []  # () -> (queryset, function to the associated data): columns `value` that rotation moves
scrub_rules: dict[str, object] = {}  # label of a model: Rule of workspaces.services.scrub
retention_layers: list = []  # further layers of workspaces.services.retention


class AgentJobs(Protocol):
    """How the scheduled runs of an agent are checked, started, followed and stopped."""

    def check(self, environment, team, job: dict) -> dict:
        """Return {program, model, task, budget_tokens, budget_cost} of a wished job. Problem 409, 422."""

    def start(self, run, workspace, caller) -> None:
        """Start the agent for a ScheduledRun, in the caller's transaction. Problem."""

    def end_of(self, run) -> tuple[str, str] | None:
        """Return (ScheduledState, reason) once the agent has ended, None while it works or asks."""

    def stop(self, run, caller) -> None:
        """End the agent of a ScheduledRun."""


class Ports(Protocol):
    """What this app asks the one above."""

    agent_jobs: AgentJobs

    def ask_a_person(self, caller, wanted, key: str | None = None) -> dict:
        """Create an action for a person to decide on, from an AskFirst; return {action, status, url, …}."""

    def runs_without_approval(self, workspace, command: str, cwd, by) -> bool:
        """Return whether the policy lets this agent's shell call run unasked that nothing holds."""

    def name_of_action(self, pk) -> dict | None:
        """Return {id, number}: how manifests name the approved action behind a snapshot."""

    def work_began_at(self, workspace) -> int | None:
        """Return the number of the snapshot from before the work of a started agent that works there now."""

    def agreed_commit(self, workspace, commit: str) -> str:
        """Return the commit that a workspace begins with whose source was cloned at `commit`.

        It is another one if attempts at the same task were cloned before, and their branch has moved since.
        """

    def tasks_of(self, workspaces) -> dict:
        """Return {id of a workspace: id of the task at which it is an attempt}; others have no entry."""

    def is_review(self, workspace) -> bool:
        """Return whether a reviewer looks at a copy there, from which nothing is pushed."""

    def used_by_agents(self, team_id, since: datetime) -> tuple:
        """Return (tokens, cost) that the team's started agents have used or reserved at models since then."""

    def program_variables(self, operation) -> dict[str, str]:
        """Return the variables of the operation's program alone, which are redacted from its output."""

    def read_home(self, workspace, tree) -> None:
        """Read the home at the end of a Run, when nothing runs any more and `tree.files("home")` can be read."""

    def pull_request_sections(self, workspace) -> list[tuple[str, list[str]]]:
        """Return what a pull request says beside commits and commands: [(heading, lines of Markdown)]."""

    def place_comments(self, section, caller) -> None:
        """Put people's comments beside the lines of a changed file."""

    def drafts_on(self, workspace, caller) -> dict | None:
        """Return what the Changes tab shows of the caller's drafts; None without any."""

    def agents_at_work(self, workspaces, now: datetime) -> set:
        """Return {(id of a workspace, id of an agent as text)} of what is under way besides operations."""

    def messages_in(self, workspace):
        """Return rows with `pk`, `at`, `who`, `text`, `url`: what was said in agents' sessions, for the timeline."""

    def task_in(self, workspace) -> dict | None:
        """Return {title, agent, url, started_at, ended_at} of the newest task of an agent there; None if none was."""

    def open_questions(self, workspace) -> list[dict]:
        """Return [{kind, name, words, by, url}]: the open questions, for the hand-over."""

    def ask_about_request(self, workspace, wish: dict, run: str) -> tuple[str, str]:
        """Make an action of a request that the proxy holds open; return its id and digest. Problem.

        Without a credential, that is the action about the host and method which the Run has already.
        """

    def answer_about_request(self, pk: str) -> str | None:
        """Return "" for an approval, None while nobody has answered, else why it is no."""

    async def use_approved_request(self, pk: str, digest: str) -> None:
        """Use the approval. Problem 409 if it is no longer good, or a person edited the call."""

    def stop_asking_about_request(self, pk: str) -> None:
        """Withdraw the action, as the program that asked went away."""

    def tell_person(self, user, text: str) -> None:
        """Notify one person, in the caller's transaction."""

    def snapshots_compared(self, team) -> set:
        """Return {pk} of the snapshots that cards of waiting actions compare with. No rule deletes them meanwhile."""

    def unsent_of(self, user):
        """Return the rows that the person wrote and sent to nobody. They are deleted when the person is purged."""


ports: Ports
