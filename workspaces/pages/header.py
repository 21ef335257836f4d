"""The header of a workspace's pages: its state, isolation, storage, operations, buttons and tabs."""

from dataclasses import dataclass
from functools import cached_property

from django.db.models import Count, Exists, F, OuterRef, Subquery
from django.db.models.functions import Coalesce
from django.http import Http404
from django.utils.translation import gettext, gettext_lazy

from dashboard.database import clock
from dashboard.models import Agent, Event
from dashboard.web.pages import Gone
from workspaces.lifecycle import agents_at_work
from workspaces.lifecycle.activity import Awake, why_awake
from workspaces.models import AgentsTogether, Operation, State, StateCode, Workspace
from workspaces.operations import endings
from workspaces.operations.shown_state import MOVES, frozen_words, out_of_reach, shown_state, what_to_do
from workspaces.pages.about import About
from workspaces.pages.operation_view import OperationView
from workspaces.programs.checks import services_of
from workspaces.provisioning import capacity, isolation
from workspaces.secrets import open_findings
from workspaces.services import retention
from workspaces.services.agent_bindings import bound
from workspaces.services.environments.drift import Drift, drift_of
from workspaces.services.retention import holds

ISOLATION_WORDS = {
    "none": gettext_lazy("Not sandboxed: runs as you, in your folder. Handrail asks for approval and takes snapshots."),
    "namespace": gettext_lazy(
        "Sandboxed: sees only its own folder and its allowed hosts. Shares this machine's kernel."
    ),
    "container": gettext_lazy("Container: its own file system and limits. Shares this machine's kernel."),
    "microvm": gettext_lazy("MicroVM: its own kernel, with hardware virtualisation."),
    "microvm-emulated": gettext_lazy("Emulated microVM: its own kernel, but slower, and not a security boundary."),
}
STAYS = gettext_lazy(
    "Only /workspace is kept. Everything else is reset at each start, so setup should install into /workspace."
)
STAYS_IN_A_LAYER = gettext_lazy("Only /workspace is kept. Setup's other installs are reused at each start.")
GATE_LIMITS = gettext_lazy(
    "This folder is gated by a hook in .claude/settings.local.json. A session started with --bare, with "
    "--settings, or with disableAllHooks in that file isn't gated."
)
TABS = [
    ("workspace", gettext_lazy("Timeline")),
    ("workspace-changes", gettext_lazy("Changes")),
    ("workspace-files", gettext_lazy("Files")),
    ("workspace-terminals", gettext_lazy("Terminals")),
    ("workspace-checks", gettext_lazy("Commands")),
    ("workspace-snapshots", gettext_lazy("Snapshots")),
    ("workspace-notes", gettext_lazy("Notes")),
    ("workspace-conversations", gettext_lazy("Conversations")),
    ("workspace-network", gettext_lazy("Network")),
]


def with_display_columns(workspaces):
    """Load workspaces with team, environment, owner, and the counts that their displayed state needs."""
    under_way = Operation.objects.open().filter(workspace=OuterRef("pk"))
    # Two subqueries, as two joins would multiply commands with actions. Each finds its few rows by an index.
    running = count_of(under_way.filter(command__service=""), by="workspace")
    waiting = count_of(Workspace.objects.filter(pk=OuterRef("pk"), actions__status="pending"), by="pk")
    busy = under_way.filter(exclusive=True)
    moves = busy.filter(kind__in=[*MOVES]).order_by("due_at").values("kind")[:1]
    return workspaces.select_related(
        "team",
        "environment",
        "created_by_agent__owner",
        "created_by_user",
        "owner",
        "forked_from__team",
        "head",
        "baseline",
        "runner",
    ).annotate(is_busy=Exists(busy), running=running, waiting=waiting, moves=Subquery(moves))


def count_of(rows, *, by: str):
    return Coalesce(Subquery(rows.order_by().values(by).annotate(n=Count("*")).values("n")), 0)


def find(request, team: str, key: str) -> Workspace:
    """Return the workspace with this key that the caller may see, else the newest one with it in the trash.

    Raises Gone if it was purged, else Http404.
    """
    found = with_display_columns(Workspace.objects.visible_to(request.caller)).filter(team__slug=team, key=key)
    workspace = found.filter(purged_at=None).order_by(F("trashed_at").desc(nulls_first=True)).first()
    if workspace is None:
        purged = Workspace.objects.visible_to(request.caller).filter(team__slug=team, key=key).order_by("-created_at")
        raise _gone(purged.first()) if purged.exists() else Http404("no such workspace")
    return workspace


def _gone(workspace) -> Gone:
    """Build Gone for a purged workspace; the event log says who deleted it."""
    trashed = Event.objects.filter(workspace_id=workspace.pk, verb="workspace.trashed").order_by("-seq").first()
    by_a_sweep = trashed is not None and trashed.actor_type == "system"
    why = (
        gettext("by retention")
        if by_a_sweep
        else gettext("by %(name)s") % {"name": trashed.actor_label}
        if trashed
        else ""
    )
    return Gone(workspace.key, at=workspace.purged_at, why=why)


@dataclass
class Head:
    """The header of one workspace's pages, for one caller."""

    workspace: Workspace
    caller: object
    tab: str

    @property
    def state(self) -> str:
        return shown_state(self.workspace)

    @property
    def out_of_reach(self) -> str:
        return out_of_reach(self.workspace)

    @property
    def what_to_do(self) -> str:
        """The advice on how to bring its driver, or the workspace itself, back; "" if there is none."""
        return what_to_do(self.workspace) if self.out_of_reach else ""

    @property
    def is_moving(self) -> bool:
        """Whether an operation changes its state now; one that waits for its engine leaves the state as it is."""
        return bool(getattr(self.workspace, "moves", "")) and not self.out_of_reach

    @property
    def ended_by_itself(self) -> bool:
        run = self.run if self.workspace.state == State.STOPPED and not self.workspace.trashed_at else None
        return run is not None and run.end_code in endings.BY_ITSELF

    @property
    def reason(self) -> str:
        workspace = self.workspace
        if workspace.trashed_at:
            words = gettext("Snapshot %(number)s has all files.")
            return words % {"number": workspace.head.number} if workspace.head else ""
        if self.ended_by_itself and workspace.head and not workspace.missing_snapshot:
            files = gettext("Files are as in snapshot %(number)s.") % {"number": workspace.head.number}
            return f"{workspace.reason} {files}".strip()
        return workspace.reason

    @cached_property
    def awake(self) -> Awake | None:
        is_told = self.workspace.trashed_at or self.out_of_reach or self.is_moving
        return None if is_told else why_awake(self.workspace)

    @cached_property
    def bound(self) -> list[str]:
        """Agents that may work in it besides the one that created it."""
        return bound(self.workspace)

    @cached_property
    def at_work(self) -> list[str]:
        """Agents that did something in it in the last minutes, where its environment wants that shown."""
        if self.workspace.trashed_at or self.workspace.environment.agents_together == AgentsTogether.ALLOW:
            return []
        return [agent.name for agent in agents_at_work.at_work(self.workspace, clock.now())]

    @property
    def is_one_at_a_time(self) -> bool:
        return self.workspace.environment.agents_together == AgentsTogether.ONE

    @cached_property
    def about(self) -> About:
        return About(self.workspace, self.caller)

    @property
    def to_bind(self) -> list[tuple[str, bool]]:
        """(agent name, whether it is bound) for callers who may bind agents."""
        if self.workspace.trashed_at or not self.caller.can("manage_agents", self.workspace.team_id):
            return []
        names = Agent.objects.filter(team=self.workspace.team_id).exclude(pk=self.workspace.created_by_agent_id)
        return [(name, name in self.bound) for name in names.order_by("name").values_list("name", flat=True)[:200]]

    @cached_property
    def run(self):
        """The newest run, for the time its start took."""
        return self.workspace.runs.order_by("-started_at").first()

    @cached_property
    def drift(self) -> Drift | None:
        settled = self.workspace.state in (State.READY, State.PAUSED, State.STOPPED)
        return drift_of(self.workspace) if settled and not self.workspace.trashed_at else None

    @property
    def faulty_files(self) -> list[str]:
        """Files that say how its repository is set up and could not be read in full."""
        return [] if self.workspace.trashed_at else [f["path"] for f in self.workspace.repository_files if f["errors"]]

    @property
    def suggesting_files(self) -> list[str]:
        """Files that say how its repository is set up, where its environment has no setup."""
        workspace = self.workspace
        if workspace.trashed_at or workspace.environment.setup or not self.may_rebuild or workspace.own_folder:
            return []
        return [file["path"] for file in workspace.repository_files if file["fields"]]

    @property
    def may_rebuild(self) -> bool:
        return self.caller.can("manage_environments", self.workspace.team_id)

    @property
    def failing_services(self) -> list:
        """Its services that fail again and again."""
        if self.tab != "workspace" or self.workspace.state != State.READY or self.workspace.trashed_at:
            return []
        return [service for service in services_of(self.workspace) if service.fails_again]

    @property
    def silent(self) -> str:
        """A message if its host has no recent heartbeat: the page may be out of date. Else ""."""
        runner = self.workspace.runner
        if runner is None or runner.heartbeat_at is None or runner.is_alive:
            return ""
        return gettext("Its host %(host)s does not answer. Its files are unaffected.") % {"host": runner.host}

    @property
    def hook_problem(self) -> str:
        """Why the agent in this connected folder is not gated."""
        is_away = self.out_of_reach == StateCode.HELD_UP
        return "" if self.workspace.trashed_at or is_away else self.workspace.hook_problem

    @property
    def may_put_hook_back(self) -> bool:
        return self.caller.can("put_hook_back", self.workspace.team_id)

    @property
    def can_be_held(self) -> bool:
        """Whether this is a connected folder that is up, whose calls a person may have held in a box or not."""
        workspace = self.workspace
        return (
            workspace.environment.capabilities.own_folder
            and workspace.state == State.READY
            and not workspace.trashed_at
        )

    @property
    def may_hold(self) -> bool:
        return self.caller.can("hold_calls", self.workspace.team_id)

    @property
    def gate_limits(self) -> str:
        return GATE_LIMITS if self.workspace.environment.capabilities.own_folder else ""

    @property
    def frozen(self) -> str:
        return frozen_words(self.workspace)

    @property
    def size(self) -> tuple[int, int, bool] | None:
        """(bytes on disk, the limit or 0, whether to warn); None before the first measurement."""
        size, limit = self.workspace.vitals.get("bytes"), capacity.size_limit(self.workspace)
        return None if size is None else (size, limit, bool(limit) and size >= limit * capacity.NEARLY_FULL)

    @property
    def processes(self) -> dict:
        """{count, limit} of a workspace that is up and whose limit on processes and threads is reached, else {}."""
        is_up = self.workspace.state == State.READY and not self.workspace.trashed_at
        return self.workspace.vitals.get("processes", {}) if is_up else {}

    @property
    def ports(self) -> list[dict]:
        return self.workspace.vitals.get("ports", [])

    @property
    def alarm(self) -> dict:
        """The proof that found differences and was not answered yet, even if later proofs held; else {}."""
        proof = self.workspace.proof
        return self.workspace.alarm or (proof if proof.get("differ") and not proof.get("answered") else {})

    @property
    def isolation(self) -> str:
        return isolation.of(self.workspace)

    @property
    def isolation_title(self) -> str:
        words = isolation.IN_WORDS[self.isolation]
        return words[0].upper() + words[1:]

    @property
    def isolation_words(self) -> str:
        return ISOLATION_WORDS[self.isolation]

    @property
    def stays(self) -> str:
        if self.isolation == "none":
            return ""
        return STAYS if self.isolation == "namespace" else STAYS_IN_A_LAYER

    @property
    def _keeps_memory(self) -> bool:
        return self.workspace.environment.capabilities.memory

    @property
    def can_have_checkpoints(self) -> bool:
        return self._keeps_memory

    @property
    def may_start_agent(self) -> bool:
        """Whether its environment names agents that the person may start here."""
        named = self.workspace.environment.agent_programs and not self.workspace.trashed_at
        return bool(named) and self.caller.can("start_agents", self.workspace.team_id)

    @property
    def may_keep_checkpoint(self) -> bool:
        """Whether it is paused with memory that a person may keep under a name."""
        paused = self.workspace.state == State.PAUSED and not self.workspace.trashed_at and self._keeps_memory
        kept = paused and self.run is not None and self.run.memory_kept
        return kept and self.caller.can("keep_checkpoint", self.workspace.team_id)

    @property
    def _kept_asleep(self) -> str:
        if self.run is not None and self.run.memory_kept:
            return gettext("Files and running programs are kept; services restart.")
        return gettext("Files are kept; programs were stopped.")

    @property
    def asleep_words(self) -> str:
        return {
            State.PAUSED: gettext("%(kept)s Any use resumes it.") % {"kept": self._kept_asleep},
            State.STOPPED: gettext("Files are kept; programs were stopped. Resume starts it."),
            State.ARCHIVED: gettext("Its files are in snapshot %(number)s. Resume brings them back and starts it.")
            % {"number": self.workspace.head.number if self.workspace.head else "?"},
        }.get(self.workspace.state, "")

    @cached_property
    def operations(self) -> list:
        """The exclusive operations that are due or in flight, as OperationViews."""
        operations = Operation.objects.open().filter(workspace=self.workspace, exclusive=True).order_by("due_at")
        return [OperationView(operation) for operation in operations]

    @cached_property
    def findings(self) -> list:
        """Files whose secret values block snapshots; also shown to callers who may not manage secrets."""
        return list(open_findings(self.workspace)[:20])

    @property
    def may_keep_secrets(self) -> bool:
        return self.caller.can("manage_secrets", self.workspace.team_id)

    def may_stop(self, operation: OperationView) -> bool:
        return bool(operation.stop_needs) and self.caller.can(operation.stop_needs, self.workspace.team_id)

    @property
    def may_use(self) -> bool:
        return self.caller.can("use_workspace", self.workspace.team_id)

    @cached_property
    def goes_at(self):
        """When it goes to the trash if nobody uses it; None if nobody was warned of that."""
        return retention.when_it_goes(self.workspace)

    @cached_property
    def holds(self):
        """The holds that keep the workspace or one of its snapshots from being deleted."""
        return holds.on_workspace(self.workspace)

    @property
    def may_set_holds(self) -> bool:
        return self.caller.can("hold", self.workspace.team_id)

    @property
    def may_delete_snapshot(self) -> bool:
        return self.caller.can("delete_snapshot", self.workspace.team_id)

    @property
    def opens_terminal(self) -> bool:
        usable = self.workspace.state in (State.READY, State.PAUSED) and not self.workspace.trashed_at
        usable = usable and not self.is_moving and self.out_of_reach in ("", StateCode.BACKEND_LOST)
        return usable and self.caller.can("type_in_terminal", self.workspace.team_id)

    @cached_property
    def live_terminal(self):
        """The newest running terminal."""
        running = self.workspace.terminals.filter(ended_at=None, operation__in=Operation.objects.open())
        return running.order_by("-created_at").first()

    @property
    def may_restore(self) -> bool:
        return self.caller.can("restore", self.workspace.team_id)

    @property
    def may_fork(self) -> bool:
        """Connected folders cannot be forked (provisioning.eligibility)."""
        forks = not self.workspace.environment.capabilities.own_folder and not self.workspace.trashed_at
        return forks and self.caller.can("create_workspace", self.workspace.team_id)

    @property
    def may_delete(self) -> bool:
        return self.caller.can("delete_workspace", self.workspace.team_id)

    @property
    def may_reset(self) -> bool:
        workspace = self.workspace
        settled = workspace.state in (State.READY, State.PAUSED, State.STOPPED) and not workspace.trashed_at
        return settled and workspace.baseline is not None and self.may_restore

    @property
    def buttons(self) -> list[tuple[str, str]]:
        """(URL name, label) of the buttons for the current state."""
        if self.workspace.trashed_at or self.is_moving or not self.may_use:
            return []
        files_only = [("workspace-pause-files", gettext("Pause without memory"))] if self._keeps_memory else []
        is_paused = not self.workspace.environment.ephemeral  # others are stopped instead: lifecycle.pause refuses
        pause = [("workspace-pause", gettext("Pause")), *files_only] if is_paused else []
        return {
            State.READY: [*pause, ("workspace-stop", gettext("Stop"))],
            State.PAUSED: [("workspace-resume", gettext("Resume")), ("workspace-stop", gettext("Stop"))],
            State.STOPPED: [("workspace-resume", gettext("Resume"))],
            State.ARCHIVED: [("workspace-resume", gettext("Resume"))],
            State.FAILED: [("workspace-retry", gettext("Try again"))],
        }.get(self.workspace.state, [])

    @property
    def may_push(self) -> bool:
        """Whether a person can look at what a push would send to the repository that it came from."""
        is_up = self.workspace.state in (State.READY, State.PAUSED) and not self.workspace.trashed_at
        return bool(self.workspace.remote) and is_up and self.may_use

    @property
    def may_return(self) -> bool:
        """Whether a person can choose with which files it resumes."""
        asleep = self.workspace.state in (State.PAUSED, State.STOPPED)
        return asleep and self.may_use and not self.workspace.trashed_at

    @property
    def can_snapshot(self) -> bool:
        settled = self.workspace.state in (State.READY, State.PAUSED, State.STOPPED)
        return settled and self.may_use and not self.workspace.trashed_at

    @property
    def may_archive(self) -> bool:
        """Whether it has files that can leave the host; also one whose files could not all be removed."""
        workspace = self.workspace
        has_files = workspace.state in (State.READY, State.PAUSED, State.STOPPED) or bool(workspace.reason)
        kept = (
            not workspace.trashed_at
            and not workspace.environment.capabilities.own_folder
            and workspace.state != State.FAILED
        )
        return kept and has_files and workspace.head is not None and self.may_use

    @property
    def tabs(self) -> list[tuple[str, str, bool]]:
        return [(name, words, name == self.tab) for name, words in TABS]


def load_header(request, team: str, key: str, tab: str) -> Head:
    return Head(find(request, team, key), request.caller, tab)
