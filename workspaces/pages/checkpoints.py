"""Checkpoints of a microVM: the list with the form that keeps one, restore, fork and delete."""

from django import forms
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy

from dashboard.problems import Problem
from dashboard.web.pages import (
    READ_OR_WRITE,
    Slice,
    ask_first,
    carry_out,
    must,
    signed_in,
    take_form,
)
from workspaces.lifecycle.carried import NAME
from workspaces.models import Checkpoint
from workspaces.pages.forms import ForkForm
from workspaces.pages.header import load_header
from workspaces.services import checkpoints


class NewCheckpoint(forms.Form):
    name = forms.RegexField(
        NAME.pattern + r"\Z",
        label=gettext_lazy("Name"),
        max_length=100,
        error_messages={"invalid": gettext_lazy("Use letters, digits, dots, dashes; begin with a letter or digit.")},
        widget=forms.TextInput(attrs={"autocapitalize": "off", "autocomplete": "off", "spellcheck": "false"}),
    )


@signed_in
@READ_OR_WRITE
def index(request, team, key):
    """List the checkpoints of a workspace; a POST keeps one of the paused microVM."""
    head = load_header(request, team, key, "workspace-snapshots")
    workspace, caller = head.workspace, request.caller
    form = NewCheckpoint(request.POST or None)

    def shown(form):
        return render(request, "workspaces/checkpoints.html", _context(request, head, form))

    if request.method != "POST":
        return shown(form)
    must(caller, "keep_checkpoint", workspace.team_id)
    return take_form(
        request,
        form,
        lambda fields: checkpoints.keep(workspace, fields["name"], by=caller.actor),
        shown=shown,
        then=lambda made: reverse("workspace-operation", args=[team, key, made[1].pk]),
        otherwise=reverse("workspace-checkpoints", args=[team, key]),
        at="name",
    )


def _context(request, head, form) -> dict:
    workspace, caller = head.workspace, request.caller
    has_memory = checkpoints.has_memory(workspace)
    may_keep = caller.can("keep_checkpoint", workspace.team_id)
    return {
        "nav": "workspaces",
        "head": head,
        "page": Slice(request, workspace.checkpoints.all()),
        "form": form,
        "can_have": checkpoints.can_have(workspace),
        "may_keep": may_keep and has_memory,
        "may_delete": caller.can("delete_checkpoint", workspace.team_id),
        "size": _size_now(workspace) if may_keep and has_memory else None,
    }


def _size_now(workspace) -> int | None:
    """Return what a checkpoint would take on the disk; None if the runner does not say."""
    try:
        return checkpoints.size_now(workspace)
    except Problem:
        return None


@signed_in
@READ_OR_WRITE
def restore(request, team, key, pk):
    """Say what a restore of the checkpoint does; a POST submits it."""
    head = load_header(request, team, key, "workspace-snapshots")
    must(request.caller, "restore", head.workspace.team_id)
    found = _find(head, pk)
    if request.method == "POST":
        return carry_out(
            request,
            lambda: checkpoints.restore(found, by=request.caller.actor),
            then=lambda operation: reverse("workspace-operation", args=[team, key, operation.pk]),
            otherwise=reverse("workspace-checkpoints", args=[team, key]),
        )
    context = {"nav": "workspaces", "head": head, "checkpoint": found}
    context["has_memory"] = checkpoints.has_memory(head.workspace)
    return render(request, "workspaces/checkpoint_restore.html", context)


@signed_in
@READ_OR_WRITE
def fork(request, team, key, pk):
    """Create a workspace that continues from the checkpoint."""
    head = load_header(request, team, key, "workspace-snapshots")
    must(request.caller, "create_workspace", head.workspace.team_id)
    found = _find(head, pk)
    form = ForkForm(request.POST or None, workspace=head.workspace, others=[])

    def shown(form):
        context = {"nav": "workspaces", "head": head, "checkpoint": found, "form": form}
        return render(request, "workspaces/checkpoint_fork.html", context)

    if request.method != "POST":
        return shown(form)
    return take_form(
        request,
        form,
        lambda fields: checkpoints.fork(found, fields["key"], caller=request.caller),
        shown=shown,
        then=lambda made: reverse("workspace", args=[team, made.key]),
        otherwise=reverse("workspace-checkpoints", args=[team, key]),
        at="key",
    )


@signed_in
@READ_OR_WRITE
def delete(request, team, key, pk):
    """Ask before a checkpoint is deleted; a POST deletes it."""
    head = load_header(request, team, key, "workspace-snapshots")
    must(request.caller, "delete_checkpoint", head.workspace.team_id)
    found = _find(head, pk)
    if request.method != "POST":
        return ask_first(
            request,
            title=gettext("Delete the checkpoint %(name)s?") % {"name": found.name},
            says=gettext("It can't be restored or forked any more. The snapshots of the workspace stay."),
            verb=gettext("Delete"),
            back=reverse("workspace-checkpoints", args=[team, key]),
        )
    return carry_out(
        request,
        lambda: checkpoints.delete(found, by=request.caller.actor),
        then=reverse("workspace-checkpoints", args=[team, key]),
        say=gettext("Deleted the checkpoint %(name)s.") % {"name": found.name},
    )


def _find(head, pk) -> Checkpoint:
    rows = Checkpoint.objects.select_related("workspace__team", "workspace__environment", "environment")
    return get_object_or_404(rows, pk=pk, workspace=head.workspace)
