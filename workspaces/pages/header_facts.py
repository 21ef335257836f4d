"""Facts about a workspace for its pages: isolation, what stays, size, forks, and the agents that may work in it."""

from functools import cached_property

from django.conf import settings
from django.utils.translation import gettext, gettext_lazy, ngettext

from dashboard.models import Agent
from dashboard.templatetags.handrail import file_count
from workspaces.host import place
from workspaces.models import State
from workspaces.pages.about import About
from workspaces.provisioning import capacity, isolation
from workspaces.services import watching
from workspaces.services.agent_bindings import bound
from workspaces.store.watch.fanotify import Kernel
from workspaces.store.watch.inotify import Inotify
from workspaces.store.watch.listing import FULL
from workspaces.store.watch.marks import Marks
from workspaces.store.watch.watched import UNPROVEN

ISOLATION_WORDS = {
    "none": gettext_lazy("Not sandboxed: runs as you, in your folder. Handrail asks for approval and takes snapshots."),
    "namespace": gettext_lazy(
        "Sandboxed: sees only its own folder and its allowed hosts. Shares this machine's kernel."
    ),
    "container": gettext_lazy("Container: its own file system and limits. Shares this machine's kernel."),
    "container-gvisor": gettext_lazy(
        "Container in gVisor, which stands between its programs and this machine's kernel. Its own file system."
    ),
    "microvm": gettext_lazy("MicroVM: its own kernel, with hardware virtualisation."),
    "pod-runc": gettext_lazy("Pod of a cluster: its own image and limits. Shares the kernel of its node."),
    "pod-gvisor": gettext_lazy("Pod of a cluster in gVisor, which stands between its programs and the node's kernel."),
    "pod-kata": gettext_lazy("Pod of a cluster in a microVM: its own kernel, with hardware virtualisation."),
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

WATCH_WORDS = {
    Kernel.why: gettext_lazy("Files are watched: a snapshot looks only at what may have changed."),
    Marks.why: gettext_lazy("Files are watched one by one: a snapshot looks only at what may have changed."),
    Inotify.why: gettext_lazy("Files are watched one by one: a snapshot looks only at what may have changed."),
    watching.NOT_UP: "",
    watching.NOT_YET: gettext_lazy("Files are not watched yet: the next snapshot looks at all of them."),
    watching.SWITCHED_OFF: gettext_lazy(
        "Files are not watched, because HANDRAIL_WATCH is off: each snapshot looks at all of them."
    ),
    UNPROVEN: gettext_lazy(
        "Files are not watched, because file times prove nothing on this file system: each snapshot reads all of them."
    ),
    FULL % Marks.limit: gettext_lazy(
        "Files are not watched, because there are more than fs.fanotify.max_user_marks: each snapshot looks at all "
        "of them."
    ),
    FULL % Inotify.limit: gettext_lazy(
        "Files are not watched, because there are more than fs.inotify.max_user_watches: each snapshot looks at all "
        "of them."
    ),
}
MISSED = gettext_lazy(
    "Files are not watched any more, because watching missed a change once: each snapshot looks at all of them."
)
UNWATCHED = gettext_lazy("Files are not watched (%(why)s): each snapshot looks at all of them.")


class Facts:
    """The part of `Head` that says what a workspace is."""

    @cached_property
    def about(self) -> About:
        return About(self.workspace, self.caller)

    @cached_property
    def bound(self) -> list[str]:
        """Agents that may work in it besides the one that created it."""
        return bound(self.workspace)

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

    @property
    def gate_limits(self) -> str:
        return GATE_LIMITS if self.workspace.environment.capabilities.own_folder else ""

    @property
    def size(self) -> tuple[int, int, bool] | None:
        """(bytes on disk, the limit or 0, whether to warn); None before the first measurement."""
        size, limit = self.workspace.vitals.get("bytes"), capacity.size_limit(self.workspace)
        return None if size is None else (size, limit, bool(limit) and size >= limit * capacity.NEARLY_FULL)

    @property
    def shared(self) -> list[dict]:
        """[{id, key, bytes}] of what it shares on the disk with other workspaces, which count it."""
        return self.workspace.vitals.get("shared", [])

    @property
    def ports(self) -> list[dict]:
        return self.workspace.vitals.get("ports", [])

    @property
    def place(self) -> dict | None:
        """{host, since} of the host that has its files, where there are several hosts."""
        runner = self.workspace.runner
        is_one_of_some = runner is not None and (runner.address or runner.host != settings.HANDRAIL_HOST_NAME)
        return place.shown(self.workspace) if is_one_of_some else None

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
    def watching(self) -> str:
        """How its files are watched for snapshots, a sentence; "" while it is not up, when nothing can be."""
        if self.workspace.trashed_at:
            return ""
        if self.workspace.watch_alarms:
            return MISSED
        why = watching.shown(self.workspace)["why"]
        words = WATCH_WORDS.get(why)
        return UNWATCHED % {"why": why} if words is None else words

    @property
    def _keeps_memory(self) -> bool:
        return self.workspace.environment.capabilities.memory

    @property
    def can_have_checkpoints(self) -> bool:
        return self._keeps_memory

    @property
    def is_asleep(self) -> bool:
        """Whether it is not up, and a resume brings it back."""
        asleep = self.workspace.state in (State.PAUSED, State.STOPPED, State.ARCHIVED)
        return asleep and not self.workspace.trashed_at and not self.is_moving

    @property
    def _has_memory(self) -> bool:
        paused = self.workspace.state == State.PAUSED
        return paused and self.run is not None and bool(self.run.memory_kept)

    @property
    def kept(self) -> list[str]:
        """What is kept of a workspace that is not up, a sentence each."""
        found, head = [], self.workspace.head
        if head is not None and not self.workspace.missing_snapshot:
            words = gettext("All files, as in snapshot %(number)s (%(count)s).")
            found.append(words % {"number": head.number, "count": file_count(head.entries)})
        else:
            found.append(gettext("All files. No snapshot has their last changes yet."))
        if self._has_memory:
            found.append(gettext("Programs with their memory: they go on where they were, and services start again."))
        if recordings := self.workspace.terminals.filter(swept_at=None).count():
            words = ngettext("The recording of %(n)s terminal.", "The recordings of %(n)s terminals.", recordings)
            found.append(words % {"n": recordings})
        return found

    @property
    def lost(self) -> list[str]:
        """What is not kept of a workspace that is not up, a sentence each."""
        found = []
        if not self._has_memory:
            found.append(gettext("Programs and their memory: they ended."))
        if self.stays:
            found.append(gettext("What was written outside /workspace; setup makes its part again."))
        return found

    @property
    def wakes(self) -> str:
        """How a workspace that is not up comes back."""
        return {
            State.PAUSED: gettext("Any use resumes it."),
            State.STOPPED: gettext("Resume starts it."),
            State.ARCHIVED: gettext("Resume brings its files back and starts it."),
        }.get(self.workspace.state, "")
