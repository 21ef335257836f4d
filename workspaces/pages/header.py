"""The head of a workspace's pages: the workspace, its state, what happens in it, buttons, notices and tabs."""

from dataclasses import dataclass

from django.db.models import Count, Exists, F, OuterRef, Subquery
from django.db.models.functions import Coalesce
from django.http import Http404
from django.utils.translation import gettext, gettext_lazy

from dashboard.models import Event
from dashboard.web.pages import Gone
from workspaces.models import Operation, Workspace
from workspaces.operations.shown_state import MOVES
from workspaces.pages.header_controls import Controls
from workspaces.pages.header_facts import Facts
from workspaces.pages.header_notices import Notices
from workspaces.pages.header_state import ShownState
from workspaces.pages.header_work import Work

TABS = [
    ("workspace-changes", gettext_lazy("Changes")),
    ("workspace", gettext_lazy("Timeline")),
    ("workspace-files", gettext_lazy("Files")),
    ("workspace-terminals", gettext_lazy("Terminals")),
    ("workspace-snapshots", gettext_lazy("Snapshots")),
    ("workspace-checks", gettext_lazy("Commands")),
    ("workspace-notes", gettext_lazy("Notes")),
    ("workspace-conversations", gettext_lazy("Conversations")),
    ("workspace-network", gettext_lazy("Network")),
]
IN_THE_ROW = 5  # tabs; the others are behind More


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
class Head(ShownState, Work, Notices, Facts, Controls):
    """The head of one workspace's pages, for one caller."""

    workspace: Workspace
    caller: object
    tab: str

    @property
    def tabs(self) -> list[tuple[str, str]]:
        """(URL name, label) of the tabs in the row: the first ones, and the current one."""
        return [tab for number, tab in enumerate(TABS) if number < IN_THE_ROW or tab[0] == self.tab]

    @property
    def more_tabs(self) -> list[tuple[str, str]]:
        return [tab for tab in TABS if tab not in self.tabs]


def load_header(request, team: str, key: str, tab: str) -> Head:
    return Head(find(request, team, key), request.caller, tab)
