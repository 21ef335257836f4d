"""Terminals of a workspace: the list, one of them live, its recording played and downloaded."""

from csp.constants import SELF, UNSAFE_INLINE
from csp.decorators import csp_update
from django.core.handlers.asgi import ASGIRequest
from django.http import StreamingHttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard.pages import Slice, carry_out, in_threads, must, signed_in
from workspaces import effects, programs, terminals
from workspaces.file_pages import RAW_POLICY
from workspaces.head import find, look
from workspaces.models import Terminal

# xterm.js writes a style sheet of its own; scripts stay as strict as everywhere.
styles_of_xterm = csp_update({"style-src": [SELF, UNSAFE_INLINE]})
TAB = "workspace-terminals"


@signed_in
@require_safe
def index(request, team, key):
    head = look(request, team, key, TAB)
    page = Slice(request, Terminal.objects.filter(workspace=head.workspace).select_related("effect", "run"), size=50)
    rows = [(terminal, terminals.name_of(terminal), *terminals.state_of(terminal)) for terminal in page]
    context = {"nav": "workspaces", "head": head, "page": page, "rows": rows, "may_type": _may_type(head)}
    return render(request, "workspaces/terminals.html", context)


@signed_in
@require_POST
def open_one(request, team, key):
    workspace = find(request, team, key)
    must(request.caller, "type_in_terminal", workspace.team_id)
    # A browser sends each line end of a text field as CR LF.
    argv = terminals.for_command(request.POST.get("command", "").replace("\r\n", "\n"))
    return carry_out(
        request,
        lambda: programs.open_terminal(workspace, {"argv": argv}, by=request.caller.actor),
        then=lambda terminal: reverse("terminal", args=[team, key, terminal.pk]),
        otherwise=reverse(TAB, args=[team, key]),
    )


@styles_of_xterm
@signed_in
@require_safe
def terminal(request, team, key, pk):
    head, found = _look(request, team, key, pk)
    return render(request, "workspaces/terminal.html", _context(head, found))


@styles_of_xterm
@signed_in
@require_safe
def recording(request, team, key, pk):
    """The recording so far, played."""
    head, found = _look(request, team, key, pk)
    return render(request, "workspaces/terminal_recording.html", _context(head, found))


@signed_in
@require_safe
def cast(request, team, key, pk):
    """The recording so far as an asciicast, version 2."""
    _, found = _look(request, team, key, pk)
    lines = (line.encode() for line in terminals.cast_of(found))
    return _download(request, lines, f"{key}-{str(pk)[:8]}.cast", "application/x-asciicast")


@signed_in
@require_safe
def log(request, team, key, pk):
    """The raw bytes so far."""
    _, found = _look(request, team, key, pk)
    return _download(request, terminals.log_of(found), f"{key}-{str(pk)[:8]}.log", "application/octet-stream")


def _look(request, team, key, pk):
    head = look(request, team, key, TAB)
    rows = Terminal.objects.select_related("effect", "run")
    return head, get_object_or_404(rows, pk=pk, workspace=head.workspace)


def _context(head, found) -> dict:
    return {
        "nav": "workspaces",
        "head": head,
        "terminal": found,
        "name": terminals.name_of(found),
        "is_over": effects.is_over(found.effect),
        "may_type": _may_type(head),
    }


def _may_type(head) -> bool:
    return head.caller.can("type_in_terminal", head.workspace.team_id) and not head.workspace.trashed_at


def _download(request, chunks, name, kind):
    return StreamingHttpResponse(
        in_threads(chunks) if isinstance(request, ASGIRequest) else chunks,
        content_type=kind,
        headers={
            "Content-Disposition": f'attachment; filename="{name}"',
            "Content-Security-Policy": RAW_POLICY,
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "private, no-store",
        },
    )
