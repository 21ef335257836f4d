"""The top of every page of a workspace: its state in words, what holds it, what stays, what can be done."""

from dataclasses import dataclass
from functools import cached_property

from django.db.models import Count, Exists, F, OuterRef, Subquery
from django.db.models.functions import Coalesce
from django.http import Http404
from django.utils.dateparse import parse_datetime

from workspaces import capacity, isolation, retention
from workspaces.activity import Awake, why_awake
from workspaces.drift import Drift, drift_of
from workspaces.drivers.base import get_driver_class
from workspaces.lifecycle import right_to_stop
from workspaces.models import Effect, State, Workspace
from workspaces.secrets import open_findings

ISOLATION_WORDS = {
    "none": "Runs as you, in your folder. Handrail asks and keeps snapshots; it cannot hold anything back.",
    "namespace": "Sees only its folder and the hosts on its list. Shares this machine's kernel.",
    "container": "Own file system and limits. Shares this machine's kernel.",
    "microvm": "Its own kernel, behind hardware virtualisation.",
    "microvm-emulated": "Its own kernel, but emulated: slower, and not a security boundary.",
}
STAYS = "Only /workspace stays. The rest is fresh at each start, so a set-up installs into /workspace."
STAYS_IN_A_LAYER = "Only /workspace stays. What is installed elsewhere comes from the set-up, each time."
MOVE_WORDS = {
    "create": "Getting ready",
    "resume": "Waking up",
    "pause": "Going to sleep",
    "stop": "Stopping",
    "ended": "Clearing up after it ended",
    "snapshot": "Taking a snapshot",
    "restore": "Putting files back",
    "prove": "Comparing every byte",
    "renew": "Setting up again",
    "archive": "Writing an archive",
    "trash": "Moving to the trash",
    "forget": "Deleting what retention no longer keeps",
}
STEP_WORDS = {
    "files": "fetching the files",
    "setup": "running the set-up",
    "snapshot": "taking a snapshot",
    "putting back": "putting files back",
    "archive": "packing the files",
}
TABS = [
    ("workspace", "Timeline"),
    ("workspace-changes", "Changes"),
    ("workspace-files", "Files"),
    ("workspace-terminals", "Terminals"),
    ("workspace-checks", "Commands"),
    ("workspace-snapshots", "Snapshots"),
    ("workspace-network", "Network"),
]


def with_what_lists_need(workspaces):
    """Rows with team, environment, owner, and the counts that their state in words needs."""
    under_way = Effect.objects.open().filter(workspace=OuterRef("pk"))
    # Each counted by itself: two joins would multiply commands with actions. Both find their few rows by an index.
    running = _count(under_way.filter(command__service=""), by="workspace")
    waiting = _count(Workspace.objects.filter(pk=OuterRef("pk"), actions__status="pending"), by="pk")
    busy = under_way.filter(exclusive=True)
    return workspaces.select_related(
        "team", "environment", "created_by_agent__owner", "created_by_user", "head", "baseline", "runner"
    ).annotate(is_busy=Exists(busy), running=running, waiting=waiting)


def _count(rows, *, by: str):
    return Coalesce(Subquery(rows.order_by().values(by).annotate(n=Count("*")).values("n")), 0)


def find(request, team: str, key: str) -> Workspace:
    """The kept workspace, else the newest one with this key in the trash, of those that the caller sees."""
    found = with_what_lists_need(Workspace.objects.visible_to(request.caller)).filter(team__slug=team, key=key)
    workspace = found.filter(purged_at=None).order_by(F("trashed_at").desc(nulls_first=True)).first()
    if workspace is None:
        raise Http404("no such workspace")
    return workspace


@dataclass
class Head:
    """The head of one workspace's pages, for one caller."""

    workspace: Workspace
    caller: object
    tab: str

    @property
    def state(self) -> str:
        """The name of its state as pages say it: what is derived, then what is stored."""
        if self.workspace.trashed_at:
            return "deleted"
        if self.workspace.state == State.READY and self.workspace.running:
            return "working"
        return self.workspace.state

    @property
    def reason(self) -> str:
        workspace = self.workspace
        if workspace.trashed_at:
            return "" if workspace.head is None else f"Snapshot {workspace.head.number} keeps everything."
        return workspace.reason

    @cached_property
    def awake(self) -> Awake | None:
        return None if self.workspace.trashed_at else why_awake(self.workspace)

    @cached_property
    def drift(self) -> Drift | None:
        settled = self.workspace.state in (State.READY, State.PAUSED, State.STOPPED)
        return drift_of(self.workspace) if settled and not self.workspace.trashed_at else None

    @property
    def may_renew(self) -> bool:
        return self.caller.can("manage_environments", self.workspace.team_id)

    @property
    def silent(self) -> str:
        """Its host has not been heard of: what is shown may be old, and nothing is replaced."""
        runner = self.workspace.runner
        if runner is None or runner.heartbeat_at is None or not runner.is_silent:
            return ""
        return f"Its host {runner.host} does not answer. Its files are there; nothing is replaced."

    @property
    def frozen(self) -> str:
        return self.workspace.vitals.get("frozen", "")

    @property
    def size(self) -> tuple[int, int, bool] | None:
        """(bytes on disk, the limit or 0, whether that is worth a warning), once it was measured."""
        size, limit = self.workspace.vitals.get("bytes"), capacity.size_limit(self.workspace)
        return None if size is None else (size, limit, bool(limit) and size >= limit * capacity.NEARLY_FULL)

    @property
    def ports(self) -> list[dict]:
        return self.workspace.vitals.get("ports", [])

    @property
    def proof_at(self):
        return parse_datetime(self.workspace.proof["at"])

    @property
    def proof_how(self) -> str:
        how = self.workspace.proof.get("how", "")
        return f" by {how}" if how else ""

    @property
    def alarm(self) -> dict:
        """The proof that did not hold and was not answered yet; later ones may have held since."""
        proof = self.workspace.proof
        return self.workspace.alarm or (proof if proof.get("differ") and not proof.get("answered") else {})

    @property
    def isolation(self) -> str:
        return isolation.of(self.workspace)

    @property
    def isolation_title(self) -> str:
        names = {"microvm": "MicroVM", "microvm-emulated": "Emulated microVM"}
        return f"{names.get(self.isolation, self.isolation.capitalize())} isolation"

    @property
    def isolation_words(self) -> str:
        return ISOLATION_WORDS[self.isolation]

    @property
    def stays(self) -> str:
        if self.isolation == "none":
            return ""
        return STAYS if self.isolation == "namespace" else STAYS_IN_A_LAYER

    @property
    def _kept_asleep(self) -> str:
        if get_driver_class(self.workspace.environment.driver).capabilities.memory:
            return "Files and the memory of programs are kept; services begin anew."
        return "Files are kept; programs were ended."

    @property
    def asleep_words(self) -> str:
        return {
            State.PAUSED: f"{self._kept_asleep} Using it wakes it.",
            State.STOPPED: "Files are kept; programs were ended. Resume brings it up.",
        }.get(self.workspace.state, "")

    @cached_property
    def moves(self) -> list:
        """What is under way: {effect, words, step}."""
        effects = Effect.objects.open().filter(workspace=self.workspace, exclusive=True).order_by("due_at")
        return [Move(effect) for effect in effects]

    @cached_property
    def findings(self) -> list:
        """Values of secrets that keep a snapshot from being taken; those who may not manage secrets see them too."""
        return list(open_findings(self.workspace)[:20])

    @property
    def may_keep_secrets(self) -> bool:
        return self.caller.can("manage_secrets", self.workspace.team_id)

    def may_stop(self, move: "Move") -> bool:
        return bool(move.stop_needs) and self.caller.can(move.stop_needs, self.workspace.team_id)

    @property
    def may_use(self) -> bool:
        return self.caller.can("use_workspace", self.workspace.team_id)

    @cached_property
    def goes_at(self):
        """When it goes to the trash if nobody uses it, where people were warned of that."""
        return retention.when_it_goes(self.workspace)

    @property
    def opens_terminal(self) -> bool:
        usable = self.workspace.state in (State.READY, State.PAUSED) and not self.workspace.trashed_at
        return usable and self.caller.can("type_in_terminal", self.workspace.team_id)

    @cached_property
    def live_terminal(self):
        """The newest one that runs."""
        running = self.workspace.terminals.filter(ended_at=None, effect__in=Effect.objects.open())
        return running.order_by("-created_at").first()

    @property
    def may_restore(self) -> bool:
        return self.caller.can("restore", self.workspace.team_id)

    @property
    def may_delete(self) -> bool:
        return self.caller.can("delete_workspace", self.workspace.team_id)

    @property
    def resets_at_once(self) -> bool:
        """A reset can be undone, so it is one tap; a person's own folder asks first."""
        return self.workspace.baseline is not None and not self.workspace.source.get("path")

    @property
    def buttons(self) -> list[tuple[str, str]]:
        """(name of the address, verb) of what makes sense now."""
        if self.workspace.trashed_at or not self.may_use:
            return []
        reset = [("workspace-reset", "Reset")] if self.may_restore and self.resets_at_once else []
        return {
            State.READY: [("workspace-pause", "Pause"), ("workspace-stop", "Stop"), *reset],
            State.PAUSED: [("workspace-resume", "Wake"), ("workspace-stop", "Stop"), *reset],
            State.STOPPED: [("workspace-resume", "Resume"), *reset],
            State.FAILED: [("workspace-retry", "Try again")],
        }.get(self.workspace.state, [])

    @property
    def can_snapshot(self) -> bool:
        settled = self.workspace.state in (State.READY, State.PAUSED, State.STOPPED)
        return settled and self.may_use and not self.workspace.trashed_at

    @property
    def tabs(self) -> list[tuple[str, str, bool]]:
        return [(name, words, name == self.tab) for name, words in TABS]


@dataclass
class Move:
    """An effect of a workspace, in words."""

    effect: Effect

    @property
    def kind(self) -> str:
        return self.effect.kind.rpartition(".")[2]

    @property
    def words(self) -> str:
        return MOVE_WORDS.get(self.kind, self.kind.capitalize())

    @property
    def step(self) -> str:
        if self.effect.phase == "due":
            return "waiting for the runner"
        words = STEP_WORDS.get(self.effect.progress.get("step"), "")
        return f"{words}, {self.counted}" if words and self.counted else words or self.counted

    @property
    def counted(self) -> str:
        """ "12,000 of 83,915 entries", as far as anyone knows."""
        done, total = self.effect.progress.get("done"), self.effect.progress.get("total")
        if done is None:
            return ""
        return f"{done:,} of {total:,} entries" if total and done <= total else f"{done:,} entries"

    @property
    def total(self) -> int | str:
        """For the bar; empty where nobody knows how much there is."""
        done, total = self.effect.progress.get("done"), self.effect.progress.get("total")
        return total if total and done is not None and done <= total else ""

    @property
    def stop_needs(self) -> str:
        """The right that asking it to stop takes; empty when that makes no sense."""
        asked = self.effect.cancelled_at is not None or self.is_over
        return "" if asked else right_to_stop(self.effect)

    @property
    def is_over(self) -> bool:
        return self.effect.phase in ("settled", "uncertain")

    @property
    def went_well(self) -> bool:
        return bool(self.effect.outcome and self.effect.outcome.get("ok"))


def look(request, team: str, key: str, tab: str) -> Head:
    return Head(find(request, team, key), request.caller, tab)
