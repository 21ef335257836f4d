"""The Notes tab: the notes of a workspace, edited here, with their versions and the difference between any two."""

from django import forms
from django.http import Http404
from django.shortcuts import redirect, render
from django.utils.translation import gettext_lazy

from dashboard.database import clock
from dashboard.problems import Problem
from dashboard.web.pages import READ_OR_WRITE, compared_versions, must, signed_in
from workspaces.models import NoteVersion, State
from workspaces.pages.header import load_header
from workspaces.services.notes import editing, lessons, texts, versions

MAX_LISTED = 100
CODE_FIELD = {"spellcheck": "false", "autocapitalize": "off", "autocomplete": "off", "rows": 16}


class NotesForm(forms.Form):
    seen = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)
    text = forms.CharField(
        label=gettext_lazy("Notes"),
        required=False,
        strip=False,
        widget=forms.Textarea(attrs=CODE_FIELD),
        help_text=gettext_lazy("Markdown. What was done, what is next, what the next agent or person should know."),
    )
    days = forms.IntegerField(
        label=gettext_lazy("Days until it expires"),
        required=False,
        min_value=1,
        max_value=texts.MAX_DAYS,
        help_text=gettext_lazy("An expired version is taken out of the workspace at its next start. Empty: never."),
    )


@signed_in
@READ_OR_WRITE
def notes(request, team, key):
    """Show the notes; a POST saves others."""
    head = load_header(request, team, key, "workspace-notes")
    workspace, caller = head.workspace, request.caller
    form, problem = None, ""
    if request.method == "POST":
        must(caller, "use_workspace", workspace.team_id)
        form = NotesForm(request.POST)
        if form.is_valid():
            wish = form.cleaned_data
            try:
                editing.edit(workspace, wish["text"], caller=caller, seen=wish["seen"], days=wish["days"])
            except Problem as refused:
                form.add_error(None, refused.detail)
            else:
                return redirect("workspace-notes", team, key)
    else:
        form, problem = _form(workspace, caller)
    found = {"nav": "workspaces", "head": head, "form": form, "problem": problem, "file": versions.NAME}
    found |= _shown(request, workspace) | {
        "may_promote": caller.can("propose_lesson", workspace.team_id),
        "may_hand_over": caller.can("hand_over", workspace.team_id),
    }
    return render(request, "workspaces/notes.html", found)


def _form(workspace, caller) -> tuple[NotesForm | None, str]:
    """Return (the form with the notes as they are, or None; why there is no form)."""
    usable = workspace.state in editing.STATES and not workspace.trashed_at
    if not usable or not caller.can("use_workspace", workspace.team_id):
        return None, ""
    last = versions.newest(workspace)
    text, sha256, days = (last.text, last.sha256, last.days) if last else ("", "", None)
    if workspace.state == State.READY:
        try:
            now = editing.live(workspace)
        except Problem as refused:
            return None, refused.detail
        text, sha256 = now.text, now.sha256
    return NotesForm(initial={"text": text, "seen": sha256, "days": days}), ""


def _shown(request, workspace) -> dict:
    """Return the versions, those that are compared, and what is known of the newest."""
    rows = NoteVersion.objects.filter(workspace=workspace).defer("text").order_by("-number")
    listed, now = list(rows[:MAX_LISTED]), clock.now()
    numbers = [version.number for version in listed]
    from_, to = compared_versions(request, numbers)
    found = {
        "numbers": numbers,
        "versions": [(version, version.is_expired(now)) for version in listed],
        "newest": versions.newest(workspace),
        "is_expired": bool(listed) and listed[0].is_expired(now),
        "repository": lessons.repository_of(workspace),
        "to": to,
        "from_": from_,
    }
    if to is not None and from_ is not None:
        found["difference"] = versions.difference(_version(workspace, from_), _version(workspace, to))
    return found


def _version(workspace, number: int) -> NoteVersion:
    try:
        return versions.find(workspace, number)
    except Problem:
        raise Http404("no such version") from None
