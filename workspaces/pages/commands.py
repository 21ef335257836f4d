"""Pages of a workspace's commands and checks: run one, follow its output, end it."""

import hashlib

from django.http import Http404
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from dashboard.text.visible_text import hidden_note
from dashboard.web.pages import Slice, ask_first, carry_out, download, must, signed_in
from workspaces import operations
from workspaces.models import Command
from workspaces.pages.header import find, load_header
from workspaces.programs import recordings
from workspaces.programs.checks import checks_of, counted, services_of
from workspaces.services import commands as command_service
from workspaces.services.environments import newest_of

TAIL = 64 * 1024  # bytes of output on the page; the download has all of it


@signed_in
@require_safe
def checks(request, team, key):
    head = load_header(request, team, key, "workspace-checks")
    commands = Command.objects.filter(workspace=head.workspace).select_related("operation", "workspace")
    only = request.GET.get("only") == "checks"
    newest = newest_of(head.workspace.environment)
    context = {
        "nav": "workspaces",
        "head": head,
        "page": Slice(request, commands.exclude(check_name="") if only else counted(commands), size=50),
        "checks": checks_of(head.workspace)[head.workspace.pk],
        "services": services_of(head.workspace),
        "filters": [("?", gettext("All"), not only, None), ("?only=checks", gettext("Checks"), only, None)],
        "newest": None if newest == head.workspace.environment else newest,
        "may_edit": request.caller.can("manage_environments", head.workspace.team_id),
        "again": request.GET.get("again", ""),
    }
    return render(request, "workspaces/checks.html", context)


@signed_in
@require_POST
def run(request, team, key):
    workspace = find(request, team, key)
    must(request.caller, "use_workspace", workspace.team_id)
    cwd = request.POST.get("cwd", "").strip()
    wish: dict = {"cwd": cwd} if cwd else {}
    if check := request.POST.get("check"):
        wish["check"] = check
    else:
        # A browser sends each line end of a text field as CR LF.
        wish["command"] = request.POST.get("command", "").replace("\r\n", "\n")
        if asked := _ask_about_hidden(request, team, key, wish["command"]):
            return asked
    return carry_out(
        request,
        lambda: command_service.run_command(workspace, wish, by=request.caller.actor),
        then=lambda command: reverse("command", args=[team, key, command.pk]),
        otherwise=reverse("workspace-checks", args=[team, key]),
    )


def _ask_about_hidden(request, team: str, key: str, command: str):
    """Return a page that shows a command's hidden characters before it runs; None if it has none, or was shown so."""
    digest = hashlib.sha256(command.encode("utf-8", "surrogatepass")).hexdigest()
    note = hidden_note(command)
    if not note or request.POST.get("shown") == digest:
        return None
    return ask_first(
        request,
        title=gettext("Run a command with hidden characters?"),
        says=note,
        text=command,
        verb=gettext("Run it as shown"),
        back=reverse("workspace-checks", args=[team, key]),
        shown=digest,
    )


def find_command(workspace, pk) -> Command:
    """Return a command of the workspace, with what reading its output takes. Http404."""
    return get_object_or_404(
        Command.objects.select_related("operation", "workspace__runner"), pk=pk, workspace=workspace
    )


@signed_in
@require_safe
def command(request, team, key, pk):
    head = load_header(request, team, key, "workspace-checks")
    found = find_command(head.workspace, pk)
    context = {"nav": "workspaces", "head": head, "command": found, "is_over": operations.is_over(found.operation)}
    context["lost_with"] = recordings.lost_with(found)
    context["output"], context["earlier"] = _tail(found)
    return render(request, "workspaces/command.html", context)


def _tail(found: Command) -> tuple[str, int]:
    """Return the end of the output, and the number of bytes before it."""
    if found.started_at is None or found.swept_at:
        return "", 0
    data, earlier = recordings.of(found).tail(TAIL)
    return data.decode("utf-8", "surrogateescape"), earlier


@signed_in
@require_safe
def output(request, team, key, pk):
    """Download the whole output."""
    head = load_header(request, team, key, "workspace-checks")
    found = find_command(head.workspace, pk)
    if found.swept_at:
        raise Http404("its output was not kept")
    if host := recordings.lost_with(found):
        raise recordings.not_here(host)
    chunks = recordings.of(found).pieces()
    return download(request, chunks, f"{key}-{str(pk)[:8]}.txt")


@signed_in
@require_POST
def cancel(request, team, key, pk):
    workspace = find(request, team, key)
    must(request.caller, "use_workspace", workspace.team_id)
    return carry_out(
        request,
        lambda: command_service.cancel_command(find_command(workspace, pk), by=request.caller.actor),
        then=reverse("command", args=[team, key, pk]),
    )
