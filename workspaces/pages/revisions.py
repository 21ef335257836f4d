"""Pages of a revision: take the next one; show its changes and conflicts."""

import base64
from dataclasses import dataclass, field

from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_POST

from dashboard.problems import Problem
from dashboard.web.pages import READ_OR_WRITE, carry_out, must, signed_in, take_form
from workspaces.changes import history
from workspaces.models import State
from workspaces.pages.forms import RevisionForm
from workspaces.pages.header import find, load_header
from workspaces.services import rebasing, returning, revisions
from workspaces.store.lines import split_lines
from workspaces.store.merge import REMOVED_HERE, REMOVED_THERE, RENAMED_TWICE, TEXT, WHOLE

SHOWN = 20  # conflicts whose lines are shown; more are named
LINES = 60  # of one conflict
WHY = {
    TEXT: gettext_lazy("Both sides changed these lines."),
    WHOLE: gettext_lazy("Both sides changed it, and it has no lines to merge. The file here stays as it was."),
    REMOVED_HERE: gettext_lazy("It was deleted here and changed in the revision."),
    REMOVED_THERE: gettext_lazy("It was changed here and deleted in the revision."),
    RENAMED_TWICE: gettext_lazy("Both sides renamed it differently, or gave two files this name."),
}


@signed_in
@READ_OR_WRITE
def take(request, team, key):
    """Ask how the next revision of the workspace's repository is taken; a POST takes it."""
    head = load_header(request, team, key, "workspace-changes")
    workspace = head.workspace
    must(request.caller, "use_workspace", workspace.team_id)
    source = returning.clean_source(workspace) or {}
    form = RevisionForm(request.POST or None, initial={"ref": source.get("ref", "")})

    def taken(fields):
        wish = {"git": workspace.remote} | ({"ref": fields["ref"]} if fields["ref"] else {})
        return revisions.ask(workspace, wish, how=fields["how"], by=request.caller.actor)

    def shown(form):
        can_take = bool(workspace.remote) and not workspace.own_folder
        can_take = can_take and workspace.state in (State.READY, State.PAUSED, State.STOPPED)
        context = {"nav": "workspaces", "head": head, "form": form, "can_take": can_take}
        return render(request, "workspaces/revision.html", context)

    if request.method != "POST":
        return shown(form)
    return take_form(
        request,
        form,
        taken,
        shown=shown,
        then=lambda operation: reverse("workspace-operation", args=[team, key, operation.pk]),
        otherwise=reverse("workspace-revision", args=[team, key]),
        at="ref",
    )


@signed_in
@require_POST
def rebase(request, team, key):
    """Rebase on the branch as it is now, and run the checks after it."""
    workspace = find(request, team, key)
    must(request.caller, "use_workspace", workspace.team_id)
    return carry_out(
        request,
        lambda: rebasing.rebase(workspace, by=request.caller.actor),
        then=lambda operation: reverse("workspace-operation", args=[team, key, operation.pk]),
        otherwise=reverse("workspace", args=[team, key]),
        say=gettext("Rebasing. A snapshot is taken first, and the checks run after it."),
    )


@dataclass
class Part:
    """One part of a file with conflict markers: its first and last line, and its text if it is shown."""

    first: int
    last: int
    text: str = ""


@dataclass
class ConflictView:
    """A conflict of a revision, for display."""

    path: str
    raw: bytes
    why: str
    parts: list[Part] = field(default_factory=list)

    @property
    def where(self) -> str:
        return ", ".join(f"{part.first}-{part.last}" for part in self.parts)


def conflicts_of(workspace, outcome: dict) -> list[ConflictView]:
    """Return the conflicts of a revision or of a refused one; the first with their lines, as its snapshot has them."""
    views = []
    for row in outcome.get("conflicts") or ():
        raw = base64.b64decode(row["path_b64"]) if "path_b64" in row else row["path"].encode()
        parts = [Part(first, last) for first, last in row.get("lines") or ()]
        views.append(ConflictView(row["path"], raw, str(WHY.get(row.get("why") or (TEXT if parts else WHOLE))), parts))
    if number := outcome.get("snapshot"):
        for view in views[:SHOWN]:
            _show_lines(workspace, number, view)
    return views


def _show_lines(workspace, number: int, view: ConflictView):
    try:
        content = history.read_file(workspace, number, view.raw, history.MAX_SHOWN) if view.parts else b""
    except Problem:
        return  # the snapshot is gone, or the file is not for this page
    lines = split_lines(content)
    for part in view.parts:
        part.text = b"".join(lines[part.first - 1 : min(part.last, part.first - 1 + LINES)]).decode("utf-8", "replace")


def task_of(conflicts: list[ConflictView]) -> str:
    """Return what to tell an agent so that it resolves the conflicts."""
    first = gettext("The next revision of the source was merged into this workspace, with conflicts. Resolve them:")
    rows = [f"- {view.path}: {view.where or view.why}" for view in conflicts]
    last = gettext(
        "Keep what both sides meant, leave no conflict markers, run the checks. In a git repository, add the files and"
        " conclude with git commit or git rebase --continue."
    )
    return "\n".join([first, *rows[:SHOWN], *(["- …"] if len(rows) > SHOWN else []), last])
