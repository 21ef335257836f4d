"""Artifacts: the list of a person's teams, keeping chosen files of the Files tab, download and deletion."""

import posixpath
from urllib.parse import quote_from_bytes, unquote_to_bytes

from django import forms
from django.contrib import messages
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_safe

from dashboard.problems import Problem
from dashboard.web.pages import (
    READ_OR_WRITE,
    Slice,
    ask_first,
    carry_out,
    download,
    must,
    parameters,
    signed_in,
)
from workspaces.lifecycle.carried import NAME
from workspaces.models import Artifact
from workspaces.pages.header import load_header
from workspaces.pages.points import parse_point, refused_download
from workspaces.services import artifacts


class NewArtifact(forms.Form):
    name = forms.RegexField(
        NAME.pattern + r"\Z",
        label=gettext_lazy("Name"),
        max_length=100,
        error_messages={"invalid": gettext_lazy("Use letters, digits, dots, dashes; begin with a letter or digit.")},
        widget=forms.TextInput(attrs={"autocapitalize": "off", "autocomplete": "off", "spellcheck": "false"}),
    )
    note = forms.CharField(
        label=gettext_lazy("Note"),
        required=False,
        max_length=artifacts.MAX_NOTE,
        widget=forms.Textarea(attrs={"rows": 3}),
    )
    days = forms.IntegerField(
        label=gettext_lazy("Days to keep it"),
        required=False,
        min_value=1,
        max_value=artifacts.MAX_DAYS,
        help_text=gettext_lazy("Empty: kept as the team's retention says."),
    )


@signed_in
@require_safe
def index(request):
    """List the artifacts of a person's teams, of one repository or workspace on request."""
    wanted = {name: value for name, value in parameters(request, "repository", "key").items() if value}
    rows = Artifact.objects.visible_to(request.caller).filter(**wanted).select_related("team", "workspace__team")
    page = Slice(request, rows)
    listed = [(row, request.caller.can("delete_artifact", row.team_id)) for row in page]
    return render(request, "workspaces/artifacts.html", {"nav": "artifacts", "page": page, "rows": listed} | wanted)


@signed_in
@READ_OR_WRITE
def new(request, team, key):
    """Ask for the name of the files that were ticked on the Files tab; on POST keep them as an artifact."""
    head = load_header(request, team, key, "workspace-files")
    workspace = head.workspace
    must(request.caller, "keep_artifact", workspace.team_id)
    given = request.POST if request.method == "POST" else request.GET
    folder = unquote_to_bytes(given.get("quoted", "")).strip(b"/")
    paths = [unquote_to_bytes(name) for name in given.getlist("path")]
    paths += [posixpath.join(folder, unquote_to_bytes(name)) for name in given.getlist("choose")]
    paths = paths or ([folder] if folder else [])
    number = parse_point(given.get("at", ""), "live")
    number = number if isinstance(number, int) else workspace.head and workspace.head.number
    if not paths or not number:
        messages.error(request, gettext("Tick the files or folders to keep, of a workspace with a snapshot."))
        return redirect(f"{reverse('workspace-files', args=[team, key])}?at={number or 'live'}")
    form = NewArtifact(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            return _keep(request, workspace, paths, number, form.cleaned_data)
        except Problem as problem:
            form.add_error(None, problem.detail)
    shown = [(path.decode("utf-8", "surrogateescape"), quote_from_bytes(path)) for path in paths]
    context = {"nav": "workspaces", "head": head, "form": form, "paths": shown, "number": number}
    return render(request, "workspaces/artifact_new.html", context)


def _keep(request, workspace, paths, number, fields):
    """Keep the files, and lead to the operation that puts them together."""
    wish = {"number": number, "note": fields["note"], "days": fields["days"], "by": request.caller.actor}
    made, operation = artifacts.promote(workspace, fields["name"], paths, **wish)
    messages.success(request, gettext("%(name)s is being created.") % {"name": made.name})
    return redirect("workspace-operation", workspace.team.slug, workspace.key, operation.pk)


@signed_in
@require_safe
def as_zip(request, pk):
    found = _find(request, pk)
    try:
        pieces = artifacts.zip_of(found)
    except Problem as problem:
        return refused_download(problem)
    return download(request, pieces, f"{found.name}.zip", "application/zip")


@signed_in
@READ_OR_WRITE
def delete(request, pk):
    """Ask before an artifact is deleted; a POST deletes it."""
    found = _find(request, pk)
    must(request.caller, "delete_artifact", found.team_id)
    if request.method != "POST":
        return ask_first(
            request,
            title=gettext("Delete the artifact %(name)s?") % {"name": found.name},
            says=gettext("It is deleted for good. The workspace that it comes from stays as it is."),
            verb=gettext("Delete"),
            back=reverse("artifacts"),
        )
    return carry_out(
        request,
        lambda: artifacts.delete(found, by=request.caller.actor),
        then=reverse("artifacts"),
        say=gettext("Deleted the artifact %(name)s.") % {"name": found.name},
    )


def _find(request, pk) -> Artifact:
    return get_object_or_404(Artifact.objects.visible_to(request.caller).select_related("team"), pk=pk)
