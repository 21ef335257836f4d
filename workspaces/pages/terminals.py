"""Pages of a workspace's terminals: the list, a live terminal, and recordings to play or download."""

from csp.constants import SELF, UNSAFE_INLINE
from csp.decorators import csp_update
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard.database import clock
from dashboard.web.pages import Slice, as_uuid, carry_out, download, must, signed_in
from workspaces import operations
from workspaces.models import Terminal
from workspaces.pages.header import find, load_header
from workspaces.programs import terminals
from workspaces.services import commands

# xterm.js inserts inline styles; the policy for scripts stays as strict as on other pages.
styles_of_xterm = csp_update({"style-src": [SELF, UNSAFE_INLINE]})
TAB = "workspace-terminals"


@signed_in
@require_safe
def index(request, team, key):
    head = load_header(request, team, key, TAB)
    found = Terminal.objects.filter(workspace=head.workspace).select_related("operation", "run", "workspace")
    page = Slice(request, found, size=50)
    rows = [(terminal, terminals.name_of(terminal), *terminals.state_of(terminal)) for terminal in page]
    context = {"nav": "workspaces", "head": head, "page": page, "rows": rows, "may_type": _may_type(head)}
    return render(request, "workspaces/terminals.html", context)


@signed_in
@require_POST
def open_one(request, team, key):
    workspace = find(request, team, key)
    must(request.caller, "type_in_terminal", workspace.team_id)
    if again := request.POST.get("again"):
        argv = get_object_or_404(Terminal, pk=as_uuid(again), workspace=workspace).argv
    else:
        # A browser sends each line end of a text field as CR LF.
        argv = terminals.for_command(request.POST.get("command", "").replace("\r\n", "\n"))
    return carry_out(
        request,
        lambda: commands.open_terminal(workspace, {"argv": argv}, by=request.caller.actor),
        then=lambda terminal: reverse("terminal", args=[team, key, terminal.pk]),
        otherwise=reverse(TAB, args=[team, key]),
    )


@signed_in
@require_POST
def share(request, team, key, pk):
    """Let agents read a person's terminal, or no longer."""
    workspace = find(request, team, key)
    must(request.caller, "share_terminal", workspace.team_id)
    found = get_object_or_404(Terminal, pk=pk, workspace=workspace)
    shared = request.POST.get("shared") == "1"
    here = reverse("terminal", args=[team, key, pk])
    return carry_out(
        request,
        lambda: commands.share_terminal(found, shared, by=request.caller.actor),
        then=here,
    )


@styles_of_xterm
@signed_in
@require_safe
def terminal(request, team, key, pk):
    head, found = _open_page(request, team, key, pk)
    return render(request, "workspaces/terminal.html", _context(head, found))


@styles_of_xterm
@signed_in
@require_safe
def recording(request, team, key, pk):
    """Play the recording so far."""
    head, found = _open_page(request, team, key, pk)
    context = _context(head, found) | {"asked": _asked_meanwhile(found)}
    return render(request, "workspaces/terminal_recording.html", context)


def _asked_meanwhile(terminal) -> list[tuple]:
    """Return (action, seconds into the recording) of actions that an agent requested in this workspace meanwhile."""
    began = terminals.began_at(terminal)
    actions = terminal.workspace.actions.filter(created_at__gte=began, created_at__lte=terminal.ended_at or clock.now())
    return [(action, (action.created_at - began).total_seconds()) for action in actions.order_by("created_at")[:200]]


@signed_in
@require_safe
def cast(request, team, key, pk):
    """Download the recording so far as an asciicast, version 2."""
    _, found = _open_page(request, team, key, pk)
    lines = (line.encode() for line in terminals.cast_of(found))
    return download(request, lines, f"{key}-{str(pk)[:8]}.cast", "application/x-asciicast")


@signed_in
@require_safe
def log(request, team, key, pk):
    """Download the recorded output so far."""
    _, found = _open_page(request, team, key, pk)
    return download(request, terminals.log_of(found), f"{key}-{str(pk)[:8]}.log")


def _open_page(request, team, key, pk):
    head = load_header(request, team, key, TAB)
    # A terminal whose recording was deleted has no page; the list says how it ended.
    rows = Terminal.objects.select_related("operation", "run")
    return head, get_object_or_404(rows, pk=pk, workspace=head.workspace, swept_at=None)


def _context(head, found) -> dict:
    return {
        "nav": "workspaces",
        "head": head,
        "terminal": found,
        "name": terminals.name_of(found),
        "is_over": operations.is_over(found.operation),
        "may_type": _may_type(head),
        "is_agents": found.opened_by.get("type") == "agent",
    }


def _may_type(head) -> bool:
    return head.caller.can("type_in_terminal", head.workspace.team_id) and not head.workspace.trashed_at
